// A KMS v2 plugin with a key of its own: `kms-plugin SOCKET KEY`, where KEY is a file of 32 bytes.
package main

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"fmt"
	"os"
	"time"

	"k8s.io/kms/pkg/service"
)

type plugin struct{ sealed cipher.AEAD }

const keyID = "lab-1"

func (p plugin) Encrypt(_ context.Context, _ string, data []byte) (*service.EncryptResponse, error) {
	nonce := make([]byte, p.sealed.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	return &service.EncryptResponse{Ciphertext: p.sealed.Seal(nonce, nonce, data, nil), KeyID: keyID}, nil
}

func (p plugin) Decrypt(_ context.Context, _ string, asked *service.DecryptRequest) ([]byte, error) {
	size := p.sealed.NonceSize()
	if asked.KeyID != keyID || len(asked.Ciphertext) < size {
		return nil, fmt.Errorf("this is not encrypted with the key %s", keyID)
	}
	return p.sealed.Open(nil, asked.Ciphertext[:size], asked.Ciphertext[size:], nil)
}

func (p plugin) Status(context.Context) (*service.StatusResponse, error) {
	return &service.StatusResponse{Version: "v2", Healthz: "ok", KeyID: keyID}, nil
}

func main() {
	if err := serve(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(socket, file string) error {
	key, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	sealed, err := cipher.NewGCM(block)
	if err != nil {
		return err
	}
	// A container that was restarted finds the socket of the one before.
	if err := os.RemoveAll(socket); err != nil {
		return err
	}
	return service.NewGRPCService(socket, 3*time.Second, plugin{sealed}).ListenAndServe()
}

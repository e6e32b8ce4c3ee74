// kept_http2 keeps HTTP/2 connections to a Kubernetes API as client-go does (Go's own transport, with its pings), and
// counts what a roll-out does to their requests. Each client has one connection of its own.
//
//	kept_http2 SERVER CA CERT KEY < lanes.json
//
// lanes.json, on its first line, is a list of {"name", "period_seconds", "connections", "kind", "watches"}; a client
// writes once a period to an object of its own: a `configmap`, or a `lease`, as leader elections do. With `watches`, so
// many watches share its connection, as in a controller. For each further line, and at the end of its input, it prints
// what each lane saw so far, as one line of JSON.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

type lane struct {
	Name        string  `json:"name"`
	Period      float64 `json:"period_seconds"`
	Connections int     `json:"connections"`
	Kind        string  `json:"kind"`
	Watches     int     `json:"watches"`

	mutex        sync.Mutex
	Answered     int      `json:"answered"`
	Told         int      `json:"told"`
	Failed       int      `json:"failed"`
	Ended        int      `json:"watches_ended"`
	Broken       int      `json:"watches_broken_off"`
	LongestPause float64  `json:"longest_pause_ms"`
	Failures     []string `json:"failures"`
}

type api struct {
	server string
	tls    *tls.Config
}

var objects = map[string]struct{ list, body, patch string }{
	"configmap": {
		"/api/v1/namespaces/default/configmaps",
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}}`,
		`{"data":{"at":%q}}`,
	},
	"lease": {
		"/apis/coordination.k8s.io/v1/namespaces/default/leases",
		`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":%q},"spec":{"holderIdentity":"kept"}}`,
		`{"spec":{"renewTime":%q}}`,
	},
}

// One connection, as client-go's: pings after 30 s of silence.
func (a *api) connect() *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:     a.tls.Clone(),
		TLSHandshakeTimeout: 10 * time.Second,
		DialContext:         (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}}
}

func (a *api) send(client *http.Client, method, path, kind, body string) (*http.Response, error) {
	context, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(context, method, a.server+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", kind)
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response, err
}

func (l *lane) fail(name, problem string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.Failed++
	if len(l.Failures) < 50 {
		at := time.Now().UTC().Format("15:04:05.000000")
		l.Failures = append(l.Failures, fmt.Sprintf("%s %s, every %g s: %s", at, name, l.Period, problem))
	}
}

// One write; repeated only when it is told to, after the time that the server asks for.
func (l *lane) write(a *api, client *http.Client, name string, due time.Time) {
	object := objects[l.Kind]
	for {
		body := fmt.Sprintf(object.patch, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))
		response, err := a.send(client, "PATCH", object.list+"/"+name, "application/merge-patch+json", body)
		if err != nil {
			l.fail(name, err.Error())
			return
		}
		after, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		if response.StatusCode == http.StatusTooManyRequests && after > 0 {
			l.mutex.Lock()
			l.Told++
			l.mutex.Unlock()
			time.Sleep(time.Duration(after) * time.Second)
			continue
		}
		if response.StatusCode >= 300 {
			l.fail(name, response.Status)
			return
		}
		if response.ProtoMajor != 2 {
			l.fail(name, "answered by "+response.Proto)
			return
		}
		l.mutex.Lock()
		defer l.mutex.Unlock()
		l.Answered++
		l.LongestPause = max(l.LongestPause, float64(time.Since(due).Microseconds())/1000)
		return
	}
}

// A watch of one object, which is opened again, from the version that was seen last, however it ends.
func (l *lane) watch(a *api, client *http.Client, name string, stop <-chan struct{}) {
	version := ""
	for {
		path := objects[l.Kind].list + "?watch=1&allowWatchBookmarks=true&fieldSelector=metadata.name%3D" + name
		if version != "" {
			path += "&resourceVersion=" + version
		}
		response, err := client.Get(a.server + path)
		wait := time.Second
		switch {
		case err != nil:
			l.count(&l.Broken)
		case response.StatusCode == http.StatusTooManyRequests:
			l.count(&l.Told)
			after, _ := strconv.Atoi(response.Header.Get("Retry-After"))
			wait = time.Duration(max(after, 1)) * time.Second
			response.Body.Close()
		case response.StatusCode >= 300:
			l.fail(name, "watch: "+response.Status)
			version = ""
			response.Body.Close()
		default:
			events := json.NewDecoder(response.Body)
			for {
				var event struct {
					Object struct {
						Metadata struct{ ResourceVersion string }
					}
				}
				if err = events.Decode(&event); err != nil {
					break
				}
				version = event.Object.Metadata.ResourceVersion
			}
			response.Body.Close()
			wait = 0
			if errors.Is(err, io.EOF) {
				l.count(&l.Ended)
			} else {
				l.count(&l.Broken)
			}
		}
		select {
		case <-stop:
			return
		case <-time.After(wait):
		}
	}
}

func (l *lane) count(what *int) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	*what++
}

func (l *lane) work(a *api, number int, stop <-chan struct{}) {
	client := a.connect()
	name := fmt.Sprintf("kept-http2-%s-%d", l.Name, number)
	object := objects[l.Kind]
	for tries := 1; ; tries++ {
		response, err := a.send(client, "POST", object.list, "application/json", fmt.Sprintf(object.body, name))
		if err == nil && (response.StatusCode == 201 || response.StatusCode == 409) {
			break
		}
		if tries == 10 {
			fmt.Fprintf(os.Stderr, "could not create %s default/%s: %v %v\n", l.Kind, name, response, err)
			os.Exit(1)
		}
	}
	for range l.Watches {
		go l.watch(a, client, name, stop)
	}
	period := time.Duration(l.Period * float64(time.Second))
	due := time.Now().Add(period * time.Duration(number) / time.Duration(l.Connections))
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Until(due)):
		}
		l.write(a, client, name, due)
		due = due.Add(period)
		if now := time.Now(); due.Before(now) {
			due = now
		}
	}
}

func report(lanes []*lane) {
	for _, each := range lanes {
		each.mutex.Lock()
		defer each.mutex.Unlock()
	}
	text, err := json.Marshal(lanes)
	must(err)
	fmt.Println(string(text))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	authority, err := os.ReadFile(os.Args[2])
	must(err)
	pair, err := tls.LoadX509KeyPair(os.Args[3], os.Args[4])
	must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	a := &api{strings.TrimSuffix(os.Args[1], "/"), &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}}
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 1<<20)
	input.Scan()
	var lanes []*lane
	must(json.Unmarshal(input.Bytes(), &lanes))
	stop := make(chan struct{})
	var all sync.WaitGroup
	for _, each := range lanes {
		each.Failures = []string{}
		for number := range each.Connections {
			all.Go(func() { each.work(a, number, stop) })
		}
	}
	for input.Scan() {
		report(lanes)
	}
	close(stop)
	all.Wait()
	report(lanes)
}

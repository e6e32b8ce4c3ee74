module kept_http2

go 1.24

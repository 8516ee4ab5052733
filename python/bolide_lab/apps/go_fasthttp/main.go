// The content from fasthttp: server HOST:PORT.
package main

import (
	"log"
	"net"
	"os"
	"runtime"

	"github.com/valyala/fasthttp"
)

func main() {
	runtime.GOMAXPROCS(1)
	content := []byte(os.Getenv("RACE_CONTENT"))
	target := os.Getenv("RACE_TARGET")
	server := &fasthttp.Server{
		Name: "fasthttp",
		Handler: func(ctx *fasthttp.RequestCtx) {
			if string(ctx.Path()) != target {
				ctx.Error("Not Found", fasthttp.StatusNotFound)
				return
			}
			ctx.SetContentType("text/plain")
			ctx.SetBody(content)
		},
	}
	listener, err := net.Listen("tcp4", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(server.Serve(listener))
}

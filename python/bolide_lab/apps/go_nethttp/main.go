// The content from Go's net/http: server HOST:PORT [CERTIFICATE KEY]. With TLS it also serves HTTP/2.
package main

import (
	"log"
	"net/http"
	"os"
	"runtime"
)

func main() {
	runtime.GOMAXPROCS(1)
	content := []byte(os.Getenv("RACE_CONTENT"))
	target := os.Getenv("RACE_TARGET")
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != target {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		w.Write(content)
	})
	if len(os.Args) == 4 {
		log.Fatal(http.ListenAndServeTLS(os.Args[1], os.Args[2], os.Args[3], handler))
	}
	log.Fatal(http.ListenAndServe(os.Args[1], handler))
}

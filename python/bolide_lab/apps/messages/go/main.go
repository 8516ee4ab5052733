// WebSockets from gorilla/websocket: server HOST:PORT. /echo sends a message back, /broadcast to all connections.
package main

import (
	"log"
	"net/http"
	"os"
	"runtime"
	"sync"

	"github.com/gorilla/websocket"
)

var upgrader = websocket.Upgrader{
	EnableCompression: true,
	CheckOrigin:       func(*http.Request) bool { return true },
}

type room struct {
	sync.Mutex
	receivers map[*websocket.Conn]bool
}

func echo(w http.ResponseWriter, r *http.Request) {
	connection, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer connection.Close()
	for {
		kind, message, err := connection.ReadMessage()
		if err != nil || connection.WriteMessage(kind, message) != nil {
			return
		}
	}
}

func (all *room) broadcast(w http.ResponseWriter, r *http.Request) {
	connection, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer connection.Close()
	all.Lock()
	all.receivers[connection] = true
	all.Unlock()
	for {
		kind, message, err := connection.ReadMessage()
		if err != nil {
			break
		}
		prepared, err := websocket.NewPreparedMessage(kind, message)
		if err != nil {
			break
		}
		all.Lock()
		for each := range all.receivers {
			each.WritePreparedMessage(prepared)
		}
		all.Unlock()
	}
	all.Lock()
	delete(all.receivers, connection)
	all.Unlock()
}

func main() {
	runtime.GOMAXPROCS(1)
	all := &room{receivers: map[*websocket.Conn]bool{}}
	http.HandleFunc("/echo", echo)
	http.HandleFunc("/broadcast", all.broadcast)
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}

// spanner-emulator serves Spanner's in-memory fake over gRPC. It stores nothing, and its speed says nothing about Spanner:
// label results "emulated".
package main

import (
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"

	"cloud.google.com/go/spanner/spannertest"
)

func main() {
	listen := flag.String("listen", "", "address:port to listen on")
	flag.Parse()
	if *listen == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	server, err := spannertest.NewServer(*listen)
	if err != nil {
		log.Fatalf("spanner-emulator: %v", err)
	}
	log.Printf("spanner-emulator: listening on %s", server.Addr)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop
	server.Close()
}

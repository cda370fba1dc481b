// versitygw with its POSIX backend alone: `versitygw ADDRESS FOLDER`. The whole program, with every backend,
// takes minutes to compile.
package main

import (
	"context"
	"log"
	"os"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

func main() {
	folder, err := posix.New(os.Args[2], meta.XattrMeta{}, posix.PosixOpts{})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(embedgw.RunVersityGW(context.Background(), folder, &embedgw.Config{
		RootUserAccess:    os.Getenv("ROOT_ACCESS_KEY"),
		RootUserSecret:    os.Getenv("ROOT_SECRET_KEY"),
		Ports:             []string{os.Args[1]},
		MaxConnections:    1000,
		MaxRequests:       1000,
		MultipartMaxParts: 10000,
		KeepAlive:         true,
		Quiet:             true,
	}))
}

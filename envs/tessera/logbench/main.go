// logbench measures how fast a tlog-tiles log accepts leaves, and verifies afterwards that it includes them.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

const usage = `logbench COMMAND [FLAGS]

  keygen  create a key pair for a log
  write   offer leaves at a constant rate, time them, and prove their inclusion
  watch   read a log that another program writes to: its growth, and proofs of a sample of its leaves
  null    serve a minimal log in memory, to measure the limit of "write" itself

logbench COMMAND -h lists the command's flags.
`

var commands = map[string]func(arguments []string) error{
	"keygen": keygen,
	"write":  write,
	"watch":  watch,
	"null":   null,
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	name := os.Args[1]
	command, known := commands[name]
	if !known {
		asked := name == "-h" || name == "-help" || name == "--help"
		fmt.Fprint(os.Stderr, usage)
		if asked {
			return
		}
		fmt.Fprintf(os.Stderr, "\nlogbench: there is no command %q\n", name)
		os.Exit(2)
	}
	if err := command(os.Args[2:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintf(os.Stderr, "logbench %s: %v\n", name, err)
		os.Exit(1)
	}
}

// parseFlags refuses positional arguments, and empty values of required flags.
func parseFlags(flags *flag.FlagSet, arguments []string, required ...string) error {
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	for _, name := range required {
		if flags.Lookup(name).Value.String() == "" {
			return fmt.Errorf("--%s is required", name)
		}
	}
	return nil
}

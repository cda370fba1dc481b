// logbench measures how fast a tlog-tiles log accepts leaves, and proves afterwards that it has them.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

const usage = `logbench COMMAND [FLAGS]

  keygen  make a key pair for a log
  write   offer leaves at a steady rate, time them, and prove that they were included
  watch   read a log that something else writes to: its growth, and proofs of a sample of its leaves
  null    a log that does next to nothing, to measure what "write" itself can do

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

// parseFlags refuses what is no flag, and empty values of the flags that are required.
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

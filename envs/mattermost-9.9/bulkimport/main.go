// Bulkimport puts a file of Mattermost's bulk import format into the server's database, with the server's own code.
//
// The server has a command for it, which in these releases only ever tries the file out, whatever it is told; and a
// job, which begins half a minute after it was asked for.
//
//	bulkimport FILE WORKERS
//
// Settings come from the environment and MM_CONFIG, as for the server. It must be started where the server would be.
package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/mattermost/mattermost/server/public/shared/request"
	_ "github.com/mattermost/mattermost/server/v8/channels/app/slashcommands"
	"github.com/mattermost/mattermost/server/v8/cmd/mattermost/commands"
	_ "github.com/mattermost/mattermost/server/v8/enterprise"
)

func main() {
	command := &cobra.Command{
		Use:  "bulkimport FILE WORKERS",
		Args: cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, arguments []string) error {
			workers, err := strconv.Atoi(arguments[1])
			if err != nil {
				return err
			}
			return bulkImport(command, arguments[0], workers)
		},
		SilenceUsage: true,
	}
	command.Flags().String("config", "", "as the server's")
	if err := command.Execute(); err != nil {
		os.Exit(1)
	}
}

func bulkImport(command *cobra.Command, path string, workers int) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	server, err := commands.InitDBCommandContextCobra(command)
	if err != nil {
		return err
	}
	defer server.Srv().Shutdown()
	const tryOut, readAttachments = false, false
	context := request.EmptyContext(server.Log())
	if problem, line := server.BulkImportWithPath(context, file, nil, tryOut, readAttachments, workers, ""); problem != nil {
		return fmt.Errorf("line %d: %w", line, problem)
	}
	return nil
}

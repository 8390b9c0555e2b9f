// Command server is an OpenAI-compatible server on the real llama.cpp libraries that answers as llama-server does.
package main

import (
	"os"

	"myip.co.kr/hearth/test/engine/server"
)

func main() { os.Exit(server.Main(os.Args[1:])) }

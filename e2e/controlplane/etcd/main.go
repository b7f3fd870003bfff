// SPDX-License-Identifier: Apache-2.0

// Command etcd is the stock etcd server, which is not published as an installable command.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}

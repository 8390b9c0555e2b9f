package chain

import "myip.co.kr/hearth"

// Lookup finds the model that a name in a request means: an id or an alias, with or without sorting suffixes. nil = none.
func Lookup(cat *hearth.Catalog, name string) *hearth.Model { return resolve(cat, name).model }

package dialect

import "strings"

// caseVariant is the key of ours that key would be read as by somebody who ignores case, or "".
func caseVariant(key []byte) string {
	for _, name := range fieldNames {
		if foldsTo(key, name) {
			return name
		}
	}
	return ""
}

// foldsTo says whether key is name in another case. Two letters outside of ASCII fold to ASCII ones.
func foldsTo(key []byte, name string) bool {
	if len(key) < len(name) || len(key) > 3*len(name) {
		return false
	}
	return string(key) != name && strings.EqualFold(string(key), name)
}

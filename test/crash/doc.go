// Package crash kills the real program again and again while a client in a process of its own asks it for answers, and
// looks whether the records tell what the client got.
package crash

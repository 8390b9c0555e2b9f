// Package faults runs whole gateways against upstreams and callers that misbehave on the wire: every fault that the
// documentation promises something about is played over TCP, and what the caller got, what the record says and who was
// blamed is looked at from outside.
package faults

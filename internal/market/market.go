// Package market holds the simulators: what a configuration would do under a given traffic, played in virtual time by
// the very decisions that the gateway takes. The same seed gives the same figures on every machine.
//
// The slot simulator asks what one GPU that holds one model at a time makes of several models that are asked for: how
// often a model is loaded, who is served in time, and what other ways of deciding would have made of the same requests.
package market

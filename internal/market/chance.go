package market

import "math"

// purpose keeps draws apart that belong to the same request and endpoint.
type purpose uint64

const (
	forFixed purpose = iota + 1
	forPrefill
	forTail
	forTailSize
	forSpeed
	forFailure
	forKind
	forWhen
	forReject
	forMalformed
	forColdCache
	forReplica
)

// chance is where a world's draws come from: the same seed, request, endpoint, try and purpose always give the same.
type chance uint64

// at is a number in [0, 1).
func (c chance) at(request, endpoint, try int, p purpose) float64 {
	h := mix(uint64(c) ^ mix(uint64(request)+1)*0x9e3779b97f4a7c15 ^ mix(uint64(endpoint)+0x51ed2701)*0xbf58476d1ce4e5b9 ^ mix(uint64(try)<<32|uint64(p)))
	return float64(h>>11) / (1 << 53)
}

// normal is a standard normal number.
func (c chance) normal(request, endpoint, try int, p purpose) float64 {
	u, v := c.at(request, endpoint, try, p), c.at(request, endpoint, try, p|1<<20)
	return math.Sqrt(-2*math.Log(1-u)) * math.Cos(2*math.Pi*v)
}

// mix spreads the bits of a number (the finaliser of SplitMix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// logNormal is a factor whose logarithm has that standard deviation and whose median is 1.
func logNormal(sd, z float64) float64 { return math.Exp(sd * z) }

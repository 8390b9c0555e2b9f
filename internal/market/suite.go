package market

// Scenarios of a suite. Constants are chosen on the tuning half; what is claimed is measured on the reporting half, on which
// nothing is ever tuned. Those of other suites are drawn, with Drawn.
func Scenarios(suite string) []Scenario {
	if suite == Tuning {
		return tuning()
	}
	return reporting()
}

// The suites.
const (
	Tuning    = "tuning"
	Reporting = "reporting"
	Fresh     = "random"
)

func tuning() []Scenario {
	return []Scenario{
		{Name: "t-agents", Endpoints: 12, Shape: Typical(), Load: Agents(1.5), Seconds: 7200, Tight: 1.2},
		{Name: "t-chats", Endpoints: 8, Shape: Typical(), Load: Chats(2), Seconds: 7200, Tight: 1.2},
		{Name: "t-storm", Endpoints: 16, Shape: Typical(), Load: Agents(2), Seconds: 7200, Tight: 1, Storm: 3},
		{Name: "t-burst", Endpoints: 20, Shape: Typical(), Load: bursty(Chats(5)), Seconds: 3600, Tight: 0.8},
		{Name: "t-few", Endpoints: 4, Shape: Typical(), Load: Chats(0.7), Seconds: 14400, Tight: 1},
		{Name: "t-many", Endpoints: 33, Shape: spread(Typical(), 0.8), Load: Chats(20), Seconds: 900, Tight: 0.7},
		{Name: "t-rare", Endpoints: 8, Shape: Typical(), Load: Agents(0.08), Seconds: 86400, Tight: 1},
		{Name: "t-dominant", Endpoints: 8, Shape: Typical(), Load: Agents(2), Seconds: 7200, Tight: 1, Dominant: true},
		{Name: "t-newcomer", Endpoints: 10, Shape: Typical(), Load: Chats(2), Seconds: 7200, Tight: 1, Newcomer: true},
		{Name: "t-pricecut", Endpoints: 10, Shape: Typical(), Load: Chats(2), Seconds: 7200, Tight: 1, PriceCut: true},
	}
}

func reporting() []Scenario {
	return []Scenario{
		{Name: "calm-agents", Endpoints: 20, Shape: Typical(), Load: Agents(2), Seconds: 7200, Tight: 1.5},
		{Name: "calm-chats", Endpoints: 8, Shape: Typical(), Load: Chats(1), Seconds: 10800, Tight: 1.5},
		{Name: "stormy-chats", Endpoints: 20, Shape: spread(Typical(), 0.6), Load: Chats(4), Seconds: 3600, Tight: 1.5, Storm: 3},
		{Name: "tight-agents", Endpoints: 8, Shape: Typical(), Load: Agents(3), Seconds: 3600, Tight: 0.7},
		{Name: "stormy-tight-bursty-agents", Endpoints: 20, Shape: Typical(), Load: bursty(Agents(4)), Seconds: 3600, Tight: 0.7, Storm: 3},
		{Name: "bursty-chats", Endpoints: 33, Shape: spread(Typical(), 0.7), Load: bursty(Chats(30)), Seconds: 600, Tight: 1},
		{Name: "four-providers", Endpoints: 4, Shape: spread(Typical(), 0.35), Load: Chats(0.5), Seconds: 21600, Tight: 1},
		{Name: "rare-agents", Endpoints: 8, Shape: Typical(), Load: Agents(0.05), Seconds: 100000, Tight: 1},
		{Name: "dominant-bad", Endpoints: 8, Shape: Typical(), Load: Chats(2), Seconds: 5400, Tight: 1, Dominant: true},
		{Name: "newcomer", Endpoints: 12, Shape: Typical(), Load: Agents(3), Seconds: 3600, Tight: 1, Newcomer: true},
		{Name: "price-cut", Endpoints: 20, Shape: Typical(), Load: Agents(3), Seconds: 3600, Tight: 1, PriceCut: true},
	}
}

// bursty makes requests come eight times as fast in bursts.
func bursty(w Workload) Workload {
	w.Burst = 8
	return w
}

// spread sets how far prices lie apart.
func spread(s Shape, price float64) Shape {
	s.PriceSpread = price
	return s
}

// Own is the scenario around somebody's own files: what of the market and the requests is not given is drawn.
func Own() Scenario {
	return Scenario{Name: "own", Endpoints: 12, Shape: Typical(), Load: Agents(2), Seconds: 7200, Tight: 1}
}

package app

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/config"
	"myip.co.kr/hearth/internal/ledger"
	"myip.co.kr/hearth/internal/relay"
)

// TestOptions: what the configuration says of carrying requests reaches the part that carries them.
func TestOptions(t *testing.T) {
	text := `
headers_prefix: X-Acme
generation_prefix: acme-
timezone: Asia/Seoul
max_attempts: 3
early_headers: 20s
keep_alive: 7s
cooldown: {last_resort: true}
request: {max_body: 1MiB, max_body_total: 2MiB, max_answer_total: 65MiB}
local: {media_urls: fetch}
external_limit: {amount: 12.5, reset: weekly}
`
	cfg, err := config.Parse(filepath.Join(t.TempDir(), "hearth.yaml"), []byte(text), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := relayOptions(cfg)
	if err != nil {
		t.Fatal(err)
	}
	zone, err := time.LoadLocation("Asia/Seoul")
	if err != nil {
		t.Fatal(err)
	}
	want := relay.Options{
		HeaderPrefix: "X-Acme", IDPrefix: "acme-", MaxBody: 1 << 20, MaxBodyTotal: 2 << 20, Zone: zone,
		MaxAttempts: 3, EarlyHeaders: 20 * time.Second, KeepAlive: 7 * time.Second, LastResort: true, ByCost: true, ExternalLimit: ledger.Budget{Amount: 12_500_000_000, Reset: hearth.Weekly},
	}
	same := cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() })
	if d := cmp.Diff(want, got, same); d != "" {
		t.Errorf("options (-want +got):\n%s", d)
	}
	if up := upstreamOptions(cfg, Options{Version: "1"}); up.KeepAlive != 7*time.Second || up.AnswerTotal != 65<<20 || up.Agent != "hearth/1" {
		t.Errorf("upstream options %+v", up)
	}
	if fetcher(cfg, "1") == nil || fetcher(config.Default(), "1") != nil {
		t.Error("media are fetched if local.media_urls says so, and only then")
	}
}

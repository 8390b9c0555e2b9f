package dialect

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/shopspring/decimal"

	"myip.co.kr/hearth"
)

func TestDecodeChat_provider(t *testing.T) {
	price := func(s string) decimal.NullDecimal { return decimal.NewNullDecimal(decimal.RequireFromString(s)) }
	for _, tt := range []struct {
		name, provider string
		want           hearth.Preferences
		notes          []string
	}{
		{"null", `null`, hearth.Preferences{}, nil},
		{"empty", `{}`, hearth.Preferences{}, nil},
		{"all nulls", `{"order":null,"only":null,"ignore":null,"allow_fallbacks":null,"sort":null,"require_parameters":null,"data_collection":null,"zdr":null,"enforce_distillable_text":null,"quantizations":null,"preferred_min_throughput":null,"preferred_max_latency":null,"max_price":null}`, hearth.Preferences{}, nil},
		{"what is so by default", `{"allow_fallbacks":true,"require_parameters":false,"data_collection":"allow","zdr":false,"enforce_distillable_text":false,"quantizations":[],"max_price":{},"sort":{},"preferred_max_latency":{}}`, hearth.Preferences{}, nil},
		{"names", `{"only":["a","MyIP Local GPU"],"ignore":["b/fp8"],"order":["c","d"]}`, hearth.Preferences{Only: []string{"a", "MyIP Local GPU"}, Ignore: []string{"b/fp8"}, Order: []string{"c", "d"}}, nil},
		{"no fallbacks", `{"allow_fallbacks":false}`, hearth.Preferences{NoFallbacks: true}, nil},
		{"hard filters", `{"require_parameters":true,"data_collection":"deny","zdr":true}`, hearth.Preferences{RequireParams: true, NoCollection: true, ZDR: true}, nil},
		{"deny by escape", `{"data_collection":"d\u0065ny"}`, hearth.Preferences{NoCollection: true}, nil},
		{"sort by price", `{"sort":"price"}`, hearth.Preferences{Sort: hearth.SortPrice}, nil},
		{"sort by throughput", `{"sort":"throughput"}`, hearth.Preferences{Sort: hearth.SortThroughput}, nil},
		{"sort by latency", `{"sort":"latency"}`, hearth.Preferences{Sort: hearth.SortLatency}, nil},
		{"sort by tool calls", `{"sort":"exacto"}`, hearth.Preferences{Sort: hearth.SortTools}, nil},
		{"sort within models", `{"sort":{"by":"latency","partition":"model"}}`, hearth.Preferences{Sort: hearth.SortLatency}, nil},
		{"sort across models", `{"sort":{"by":"price","partition":"none"}}`, hearth.Preferences{Sort: hearth.SortPrice, AcrossModels: true}, nil},
		{"across models without a word", `{"sort":{"partition":"none","by":null}}`, hearth.Preferences{AcrossModels: true}, nil},
		{"partition null", `{"sort":{"by":"price","partition":null}}`, hearth.Preferences{Sort: hearth.SortPrice}, nil},
		{"bars on the median", `{"preferred_min_throughput":50,"preferred_max_latency":0.5}`, hearth.Preferences{MinThroughput: hearth.Percentiles{P50: 50}, MaxLatency: hearth.Percentiles{P50: .5}}, nil},
		{"bars on percentiles", `{"preferred_min_throughput":{"p50":1e2,"p75":75,"p90":null,"p99":9.5},"preferred_max_latency":{"p90":3}}`,
			hearth.Preferences{MinThroughput: hearth.Percentiles{P50: 100, P75: 75, P99: 9.5}, MaxLatency: hearth.Percentiles{P90: 3}}, nil},
		{"quantizations", `{"quantizations":["fp8","INT4","unknown"]}`, hearth.Preferences{Quantizations: []string{"fp8", "int4", "unknown"}}, nil},
		{"prices", `{"max_price":{"prompt":0.1,"completion":"1500.000000000000000001","image":null,"request":0}}`,
			hearth.Preferences{MaxPrice: hearth.MaxPrice{Prompt: price("0.1"), Completion: price("1500.000000000000000001"), Request: price("0")}}, nil},
		{"prices as people write them", `{"max_price":{"prompt":"1e3","image":1E-2}}`, hearth.Preferences{MaxPrice: hearth.MaxPrice{Prompt: price("1000"), Image: price("0.01")}}, nil},
		{"a price for sound", `{"max_price":{"prompt":1,"audio":"2"}}`, hearth.Preferences{MaxPrice: hearth.MaxPrice{Prompt: price("1")}}, []string{"provider.max_price.audio ignored: no endpoint here has a price for sound"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := DecodeChat([]byte(`{`+msgs+`,"provider":`+tt.provider+`}`), bytesCount)
			if err != nil {
				t.Fatal(err)
			}
			equal := cmp.Comparer(func(a, b decimal.NullDecimal) bool { return a.Valid == b.Valid && a.Decimal.Equal(b.Decimal) })
			if d := cmp.Diff(tt.want, c.Prefs, equal, cmpopts.EquateEmpty()); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(tt.notes, c.Notes, cmpopts.EquateEmpty()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestDecodeChat_providerRefused(t *testing.T) {
	bad := hearth.ErrInvalidRequest
	for _, tt := range []struct {
		name, provider string
		typ            hearth.ErrorType
		param, says    string
	}{
		{"a string", `"x"`, bad, "provider", "object or null"},
		{"a list", `[]`, bad, "provider", "object or null"},
		{"unknown field", `{"ony":[]}`, bad, "provider.ony", `did you mean "only"`},
		{"unknown field, nothing near", `{"zzzzzzzzz":[]}`, bad, "provider.zzzzzzzzz", "known are order, only"},
		{"field in capitals", `{"Only":[]}`, bad, "provider.Only", `did you mean "only"`},
		{"field twice", `{"only":["a"],"only":["b"]}`, bad, "provider.only", "more than once"},
		{"field twice by escape", `{"zdr":true,"zd\u0072":false}`, bad, "provider.zdr", "more than once"},
		{"only a string", `{"only":"a"}`, bad, "provider.only", "array of strings"},
		{"ignore with a number", `{"ignore":["a",1]}`, bad, "provider.ignore[1]", "must be a string"},
		{"order too long", `{"order":[` + strings.Repeat(`"a",`, 64) + `"a"]}`, bad, "provider.order", "more than 64"},
		{"allow_fallbacks a string", `{"allow_fallbacks":"no"}`, bad, "provider.allow_fallbacks", "true, false"},
		{"require_parameters a number", `{"require_parameters":1}`, bad, "provider.require_parameters", "true, false"},
		{"zdr a string", `{"zdr":"yes"}`, bad, "provider.zdr", "true, false"},
		{"data_collection a boolean", `{"data_collection":true}`, bad, "provider.data_collection", `"allow", "deny"`},
		{"data_collection unknown", `{"data_collection":"deney"}`, bad, "provider.data_collection", `did you mean "deny"`},
		{"distillable", `{"enforce_distillable_text":true}`, hearth.ErrUnsupported, "provider.enforce_distillable_text", "distillation"},
		{"distillable a string", `{"enforce_distillable_text":"yes"}`, bad, "provider.enforce_distillable_text", "true, false"},
		{"sort unknown", `{"sort":"cheapest"}`, bad, "provider.sort", "known are price, throughput, latency, exacto"},
		{"sort misspelt", `{"sort":"throughputs"}`, bad, "provider.sort", `did you mean "throughput"`},
		{"sort empty", `{"sort":""}`, bad, "provider.sort", "known are"},
		{"sort a list", `{"sort":["price"]}`, bad, "provider.sort", "a word, an object or null"},
		{"sort.by unknown", `{"sort":{"by":"speed"}}`, bad, "provider.sort.by", "known are"},
		{"sort.by a number", `{"sort":{"by":1}}`, bad, "provider.sort.by", "must be one of"},
		{"sort.by twice", `{"sort":{"by":"price","by":"latency"}}`, bad, "provider.sort.by", "more than once"},
		{"sort.partition unknown", `{"sort":{"partition":"all"}}`, bad, "provider.sort.partition", "known are model, none"},
		{"sort with another field", `{"sort":{"key":"price"}}`, bad, "provider.sort.key", "provider.sort has no field key"},
		{"quantizations a string", `{"quantizations":"fp8"}`, bad, "provider.quantizations", "array of strings"},
		{"quantization unknown", `{"quantizations":["fp8","fp12"]}`, bad, "provider.quantizations[1]", `did you mean "fp16"`},
		{"throughput a string", `{"preferred_min_throughput":"50"}`, bad, "provider.preferred_min_throughput", "a number, an object"},
		{"throughput negative", `{"preferred_min_throughput":-1}`, bad, "provider.preferred_min_throughput", "from 0 on"},
		{"latency too large", `{"preferred_max_latency":{"p50":1e999}}`, bad, "provider.preferred_max_latency.p50", "from 0 on"},
		{"latency percentile unknown", `{"preferred_max_latency":{"p95":1}}`, bad, "provider.preferred_max_latency.p95", "did you mean"},
		{"latency percentile a string", `{"preferred_max_latency":{"p90":"1"}}`, bad, "provider.preferred_max_latency.p90", "from 0 on"},
		{"max_price a number", `{"max_price":1}`, bad, "provider.max_price", "object or null"},
		{"max_price unknown", `{"max_price":{"prompts":1}}`, bad, "provider.max_price.prompts", `did you mean "prompt"`},
		{"price negative", `{"max_price":{"prompt":-0.1}}`, bad, "provider.max_price.prompt", "from 0 on"},
		{"price negative in a string", `{"max_price":{"completion":"-1"}}`, bad, "provider.max_price.completion", "from 0 on"},
		{"price a word", `{"max_price":{"image":"cheap"}}`, bad, "provider.max_price.image", "from 0 on"},
		{"price empty", `{"max_price":{"image":""}}`, bad, "provider.max_price.image", "from 0 on"},
		{"price with a plus", `{"max_price":{"request":"+1"}}`, bad, "provider.max_price.request", "from 0 on"},
		{"price with a space", `{"max_price":{"request":" 1"}}`, bad, "provider.max_price.request", "from 0 on"},
		{"price with a tail", `{"max_price":{"request":"1 KRW"}}`, bad, "provider.max_price.request", "from 0 on"},
		{"price true", `{"max_price":{"request":true}}`, bad, "provider.max_price.request", "from 0 on"},
		{"price an object", `{"max_price":{"audio":{}}}`, bad, "provider.max_price.audio", "from 0 on"},
		{"price endless", `{"max_price":{"prompt":1e999999999}}`, bad, "provider.max_price.prompt", "from 0 on"},
		{"price endlessly small", `{"max_price":{"prompt":"1e-999999999"}}`, bad, "provider.max_price.prompt", "from 0 on"},
		{"price large", `{"max_price":{"prompt":1e33}}`, bad, "provider.max_price.prompt", "from 0 on"},
		{"price fine", `{"max_price":{"prompt":"1e-33"}}`, bad, "provider.max_price.prompt", "from 0 on"},
		{"price long", `{"max_price":{"prompt":` + strings.Repeat("1", 1000) + `}}`, bad, "provider.max_price.prompt", "from 0 on"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := DecodeChat([]byte(`{`+msgs+`,"provider":`+tt.provider+`}`), bytesCount)
			e, ok := errors.AsType[*hearth.Error](err)
			if !ok || c != nil {
				t.Fatalf("accepted, or %v", err)
			}
			if e.Type != tt.typ || e.Param != tt.param || !strings.Contains(e.Message, tt.says) {
				t.Errorf("%s, param %q: %s", e.Type, e.Param, e.Message)
			}
		})
	}
}

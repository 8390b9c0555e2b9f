package store

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"myip.co.kr/hearth"
)

func TestKeys(t *testing.T) {
	s := newStore(t)
	before, err := s.KeysVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	k := hearth.Key{ID: "key-1", Hash: hearth.KeyHash{1, 2, 3}, Name: "이름", Label: "sk-myip-abc…xyz", Admin: true,
		CreatedAt: time.UnixMilli(1_764_460_800_123).UTC()}
	if err := s.InsertKey(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	twice := k
	twice.ID = "key-2"
	if err := s.InsertKey(t.Context(), twice); !errors.Is(err, ErrKeyExists) {
		t.Errorf("the same hash twice: %v, want ErrKeyExists", err)
	}
	if err := s.DisableKey(t.Context(), "key-1", true); err != nil {
		t.Fatal(err)
	}
	if err := s.DisableKey(t.Context(), "key-9", true); !errors.Is(err, ErrNotFound) {
		t.Errorf("disabling no key: %v, want ErrNotFound", err)
	}
	k.Disabled = true
	got, err := s.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]hearth.Key{k}, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if after, err := s.KeysVersion(t.Context()); after != before+2 || err != nil {
		t.Errorf("version %d became %d, %v, want two more", before, after, err)
	}
}

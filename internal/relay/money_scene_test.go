package relay

import (
	"time"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/ledger"
)

// wallet is that of the scene's key now.
func (s *scene) wallet(currency string) *ledger.Wallet {
	return &ledger.Wallet{Key: s.key, Currency: currency, At: time.Now()}
}

// left is what the key may still spend. ok: it has a limit.
func (s *scene) left(currency string) (left hearth.Nano, ok bool) {
	v := s.ledger.Left(s.wallet(currency))
	if v.All == nil {
		return 0, false
	}
	return *v.All, true
}

// holds is another request of the key.
func (s *scene) holds(worst hearth.Nano) bool {
	_, ok := s.ledger.Hold(s.wallet("KRW"), worst, true)
	return ok
}

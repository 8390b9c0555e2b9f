package journal

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// While the disk fails, who asks for space gets its error at once, and only some of them try the disk again.
func TestReserve_PausesWhileTheDiskFails(t *testing.T) {
	for name, fails := range map[string]func(*faultyDisk){
		"it does not sync":      func(d *faultyDisk) { d.syncErr = syscall.EIO },
		"it has no space":       func(d *faultyDisk) { d.space = 0 },
		"nothing can be set up": func(d *faultyDisk) { d.allocates = syscall.ENOSPC },
	} {
		t.Run(name, func(t *testing.T) {
			disk := &faultyDisk{space: -1}
			o := disk.options(t)
			o.Durability, o.pause = Power, 0
			synctest.Test(t, func(t *testing.T) {
				j := mustOpen(t, o)
				defer mustClose(t, j)
				disk.set(func() { fails(disk) })
				_, _ = j.Append([]byte("one"))
				j.room.Store(0)
				tries := 0
				try := func() bool {
					before := j.retryAt
					err := j.Reserve()
					if err == nil {
						j.Unreserve()
					} else if !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.ENOSPC) {
						t.Fatalf("Reserve: %v", err)
					}
					if j.retryAt != before {
						tries++
					}
					return err == nil
				}
				for range 1000 {
					if try() {
						t.Fatal("Reserve promised space")
					}
				}
				if tries != 1 {
					t.Errorf("%d tries in one instant", tries)
				}
				for range 10_000 {
					<-time.After(time.Millisecond)
					try()
				}
				if tries < 10 || tries > 20 {
					t.Errorf("%d tries in ten seconds", tries)
				}
				disk.set(func() { disk.syncErr, disk.space, disk.allocates = nil, -1, nil })
				<-time.After(reserveRetryMax)
				for range 2 {
					if !try() {
						t.Error("no space on a disk that is well again")
					}
				}
			})
		})
	}
}

package journal

import (
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"unsafe"
)

// sysCachestat is cachestat(2) of Linux 6.5, which has the same number on every architecture but one.
const sysCachestat = 451

// unwritten is how many pages of a file only memory has. ok is false where the system does not say.
func unwritten(t *testing.T, f osFile) (pages uint64, ok bool) {
	t.Helper()
	var whole struct{ off, n uint64 }
	var stat struct{ cache, dirty, writeback, evicted, recently uint64 }
	err := f.control(func(fd int) error {
		_, _, errno := syscall.Syscall6(sysCachestat, uintptr(fd), uintptr(unsafe.Pointer(&whole)), uintptr(unsafe.Pointer(&stat)), 0, 0, 0)
		runtime.KeepAlive(&whole)
		if errno != 0 {
			return errno
		}
		return nil
	})
	return stat.dirty + stat.writeback, err == nil
}

// The calls that promise it bring the bytes to a real disk: the model of the other tests takes their word for it.
func TestSyncWrites(t *testing.T) {
	for _, c := range []struct {
		name   string
		synced bool
		write  func(osFile) error
	}{
		{"Datasync", false, func(f osFile) error {
			if _, err := f.WriteAt(make([]byte, 100_000), 0); err != nil {
				return err
			}
			return f.Datasync()
		}},
		{"WriteSync", true, func(f osFile) error { return f.WriteSync(make([]byte, 100_000), 0) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := directory(t.TempDir())
			open := func(name string, synced bool) osFile {
				f, err := d.Create(name, synced)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { f.Close() })
				return f.(osFile)
			}
			plain := open("plain", false)
			if _, err := plain.WriteAt(make([]byte, 100_000), 0); err != nil {
				t.Fatal(err)
			}
			if n, ok := unwritten(t, plain); !ok || n == 0 {
				t.Skipf("this system does not tell what is written (%d pages) in %s", n, filepath.Dir(plain.Name()))
			}
			f := open("synced", c.synced)
			if err := c.write(f); err != nil {
				t.Fatal(err)
			}
			if n, _ := unwritten(t, f); n != 0 {
				t.Errorf("%d pages are only in memory", n)
			}
		})
	}
}

package journal

// Hold keeps everybody from opening a journal in a directory, as an open one does, until release is called. The error is
// ErrInUse if somebody has done so.
func Hold(dir string) (release func() error, err error) {
	lock, err := directory(dir).Lock()
	if err != nil {
		return nil, err
	}
	return lock.Close, nil
}

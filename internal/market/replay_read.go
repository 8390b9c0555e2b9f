package market

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth"
)

// maxRecord is the longest line of records that is read, in bytes.
const maxRecord = 4 << 20

// formatTags honours the format tags of hearth.Generation: durations in nanoseconds.
var formatTags = json.ExperimentalSupportFormatTag(true)

// exported says where records come from.
const exported = "hearth records export writes what is read here"

// ReadRecords reads records, a JSON object a line, as they are exported; also what gzip has compressed. fn gets each; an
// error of it, and one about a line, names the line. tick is told how many lines were read.
func ReadRecords(from io.Reader, fn func(*hearth.Generation) error, tick func(lines int)) error {
	in := bufio.NewReaderSize(from, 64<<10)
	if head, err := in.Peek(2); err == nil && head[0] == 0x1f && head[1] == 0x8b {
		unzipped, err := gzip.NewReader(in)
		if err != nil {
			return fmt.Errorf("it is no gzip: %w", err)
		}
		defer unzipped.Close()
		in = bufio.NewReaderSize(unzipped, 64<<10)
	}
	var long []byte
	for line := 1; ; line++ {
		text, err := nextLine(in, &long)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("line %d: %w", line, err)
		}
		if line == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff"))
		}
		if text = bytes.TrimSpace(text); len(text) > 0 {
			if e := readRecord(text, line, fn); e != nil {
				return e
			}
			tick(1)
		}
		if err != nil {
			return nil
		}
	}
}

// nextLine is the next line. It holds until the next call.
func nextLine(in *bufio.Reader, long *[]byte) ([]byte, error) {
	part, err := in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return part, unfinished(err)
	}
	*long = append((*long)[:0], part...)
	for errors.Is(err, bufio.ErrBufferFull) {
		part, err = in.ReadSlice('\n')
		if *long = append(*long, part...); len(*long) > maxRecord {
			return nil, fmt.Errorf("it is longer than %d MiB, which no record is; %s", maxRecord>>20, exported)
		}
	}
	return *long, unfinished(err)
}

// unfinished says what to do about a file that was cut off.
func unfinished(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the file was cut off: %w; export the records anew", err)
	}
	return err
}

func readRecord(text []byte, line int, fn func(*hearth.Generation) error) error {
	if text[0] != '{' {
		return fmt.Errorf("line %d is no JSON object; %s, without --format csv", line, exported)
	}
	var g hearth.Generation
	if err := json.Unmarshal(text, &g, formatTags); err != nil {
		return fmt.Errorf("line %d is no record: %w; %s", line, err, exported)
	}
	if err := fn(&g); err != nil {
		return fmt.Errorf("line %d: %w", line, err)
	}
	return nil
}

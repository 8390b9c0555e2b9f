package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth/internal/app"
)

type slotsCmd struct {
	gatewayFlags
	Slot  string `arg:"" optional:"" help:"Show this slot alone, with its last starts and what its engine wrote."`
	Watch bool   `short:"w" help:"Go on showing what changes, until Ctrl-C."`
	JSON  bool   `name:"json" help:"Print JSON; with --watch a line for each step."`
}

// Help is the long help of the command.
func (slotsCmd) Help() string {
	return `Shows what the slots of a running gateway do: which model is resident, who waits, what went wrong.

  hearth slots               all of them
  hearth slots --watch       all of them, until Ctrl-C
  hearth slots gemma         one, with its last starts and the end of its log
  hearth slots --json | jq '.data[] | select(.history[-1].outcome == "failed") | {slot, last_error}'
                             those whose last start failed

Colours are for terminals only, and NO_COLOR turns them off.`
}

// Run shows the slots.
func (c *slotsCmd) Run(ctx context.Context, std streams) error {
	path := "/slots"
	if c.Slot != "" {
		var err error
		if path, err = slotPath(c.Slot); err != nil {
			return err
		}
	}
	g, err := c.dial(ctx, std)
	if err != nil {
		return err
	}
	defer g.Close()
	show := shower{c: g, path: path, one: c.Slot != "", json: c.JSON, screen: screenOf(std.out), out: std.out, began: time.Now()}
	if !c.Watch {
		return show.once(ctx)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := show.watch(ctx, c.Slot); ctx.Err() == nil {
		return err
	}
	return nil
}

// shower shows the slots again and again.
type shower struct {
	c      *app.Client
	path   string
	one    bool
	json   bool
	screen screen
	out    io.Writer
	began  time.Time // of the watch
	last   string    // what was shown last, as of that time
}

// once prints them as they are.
func (s *shower) once(ctx context.Context) error {
	b, err := s.c.Do(ctx, "GET", s.path, nil)
	if err != nil {
		return err
	}
	if s.json {
		_, err = fmt.Fprintf(s.out, "%s\n", b)
		return err
	}
	text, err := s.page(b, time.Now())
	if err != nil {
		return err
	}
	_, err = io.WriteString(s.out, text)
	return err
}

// page is what is shown of an answer at a time.
func (s *shower) page(answer []byte, now time.Time) (string, error) {
	var b strings.Builder
	if s.one {
		var one struct {
			Data slotRow `json:"data"`
		}
		if err := json.Unmarshal(answer, &one); err != nil {
			return "", fmt.Errorf("read the gateway's answer: %w", err)
		}
		s.screen.slot(&b, &one.Data, now)
		return b.String(), nil
	}
	var list slotList
	if err := json.Unmarshal(answer, &list); err != nil {
		return "", fmt.Errorf("read the gateway's answer: %w", err)
	}
	s.screen.table(&b, &list, now)
	return b.String(), nil
}

// watchPace is how often numbers are looked at that change without a step of a slot.
const watchPace = time.Second

// watch shows the slots whenever something happens, and every second.
func (s *shower) watch(ctx context.Context, only string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if _, err := s.c.Do(ctx, "GET", s.path, nil); err != nil { // such as a slot that there is not
		return err
	}
	events, err := s.c.Open(ctx, "GET", "/slots/events", nil)
	if err != nil {
		return err
	}
	defer events.Close()
	steps, ended := make(chan []byte), make(chan error, 1)
	go func() { ended <- readEvents(ctx, events, steps) }()
	tick := time.NewTicker(watchPace)
	defer tick.Stop()
	for {
		if !s.json {
			if err := s.redraw(ctx); err != nil {
				return err
			}
		}
		select {
		case err := <-ended:
			return err
		case step := <-steps:
			if err := s.step(step, only); err != nil {
				return err
			}
		case <-tick.C:
		}
	}
}

// step prints one event, if it is JSON that is wanted.
func (s *shower) step(step []byte, only string) error {
	var of struct {
		Slot string `json:"slot"`
	}
	if err := json.Unmarshal(step, &of); err != nil {
		return fmt.Errorf("read an event: %w", err)
	}
	if !s.json || only != "" && only != of.Slot {
		return nil
	}
	_, err := fmt.Fprintf(s.out, "%s\n", step)
	return err
}

// redraw prints the slots as they are: on a terminal in the place of what was there, elsewhere if they have changed, of
// which that time passes is none.
func (s *shower) redraw(ctx context.Context) error {
	b, err := s.c.Do(ctx, "GET", s.path, nil)
	if err != nil {
		return err
	}
	text, err := s.page(b, time.Now())
	if err != nil {
		return err
	}
	if s.screen.terminal {
		_, err = io.WriteString(s.out, "\x1b[H"+strings.ReplaceAll(text, "\n", "\x1b[K\n")+"\x1b[J")
		return err
	}
	same, err := s.page(b, s.began)
	if err != nil || same == s.last {
		return err
	}
	if s.last != "" {
		text = "\n" + text
	}
	s.last = same
	_, err = io.WriteString(s.out, text)
	return err
}

// maxEvent bounds one line of a stream of events, in bytes.
const maxEvent = 4 << 20

// readEvents passes on the data of each step of a stream of events, until that ends.
func readEvents(ctx context.Context, r io.Reader, steps chan<- []byte) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxEvent)
	name := ""
	for lines.Scan() {
		line := lines.Bytes()
		if rest, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
			name = string(rest)
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok || name != "slot" {
			continue
		}
		select {
		case steps <- bytes.Clone(data):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the gateway's events: %w", err)
	}
	return errors.New("the gateway has ended")
}

type logsCmd struct {
	gatewayFlags
	Slot   string `arg:"" help:"Name of the slot (see hearth slots)."`
	Follow bool   `short:"f" help:"Go on with what is written from now on, until Ctrl-C."`
}

// Help is the long help of the command.
func (logsCmd) Help() string {
	return `Prints the last lines that a slot's engine wrote or, if none is there, those of the one before.

  hearth logs gemma
  hearth logs gemma -f       and goes on, over restarts of the engine`
}

// Run prints the log of a slot.
func (c *logsCmd) Run(ctx context.Context, std streams) error {
	path, err := slotPath(c.Slot)
	if err != nil {
		return err
	}
	g, err := c.dial(ctx, std)
	if err != nil {
		return err
	}
	defer g.Close()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	path += "/log"
	if c.Follow {
		path += "?follow=1"
	}
	log, err := g.Open(ctx, "GET", path, nil)
	if err != nil {
		return err
	}
	defer log.Close()
	lines := bufio.NewScanner(log)
	lines.Buffer(make([]byte, 64<<10), maxEvent)
	for lines.Scan() {
		if _, err := fmt.Fprintln(std.out, safe(lines.Text())); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("read the log: %w", err)
	}
	return nil
}

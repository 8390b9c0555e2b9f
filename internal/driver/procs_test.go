package driver

import (
	"slices"
	"testing"
)

func TestMembers(t *testing.T) {
	const tag, ours = "D/s", 7
	leader := proc{pid: 100, start: 1, group: 100}
	before := map[birth]int{{pid: 20, start: 3}: 1}
	cases := map[string]struct {
		all  []proc
		want []int
	}{
		"the leader, with or without its tag":               {[]proc{leader, {pid: 5, group: 5}}, []int{100}},
		"who has the leader's number is not the leader":     {[]proc{{pid: 100, start: 2, group: 100}}, nil},
		"who bears the tag, wherever it is":                 {[]proc{{pid: 9, group: 9, tag: tag}, {pid: 10, group: 3, tag: tag}}, []int{9, 10}},
		"the tag of another slot, or of another directory":  {[]proc{{pid: 9, group: 9, tag: "D/s2"}, {pid: 10, group: 10, tag: "E/s"}, {pid: 11, group: 11, tag: "D/"}}, nil},
		"the group of the leader":                           {[]proc{leader, {pid: 9, group: 100}}, []int{9, 100}},
		"the group of a leader that is dead but not buried": {[]proc{{pid: 100, start: 1, group: 100, dead: true}, {pid: 9, group: 100}}, []int{9}},
		"a group whose leader has gone, while a member bears the tag": {
			[]proc{{pid: 9, group: 50, tag: tag}, {pid: 10, group: 50}}, []int{9, 10}},
		"a group whose member with the tag is dead": {[]proc{{pid: 9, group: 50, tag: tag, dead: true}, {pid: 10, group: 50}}, nil},
		"a group that a member has gone to": {
			[]proc{{pid: 50, group: 50}, {pid: 9, group: 50, tag: tag}, {pid: 10, group: 50}}, []int{9}},
		"a group whose leader is dead and was somebody's": {
			[]proc{{pid: 50, group: 50, dead: true}, {pid: 9, group: 50, tag: tag}, {pid: 10, group: 50}}, []int{9, 10}},
		"never the group of the gateway":             {[]proc{{pid: 9, group: ours, tag: tag}, {pid: 10, group: ours}}, []int{9}},
		"who was a member before, but not its group": {[]proc{{pid: 20, start: 3, group: 21}, {pid: 22, group: 21}}, []int{20}},
		"who was a member before, and is dead":       {[]proc{{pid: 20, start: 3, group: 21, dead: true}}, nil},
		"who has the number of a former member":      {[]proc{{pid: 20, start: 4, group: 21}}, nil},
		"nobody without a tag":                       {[]proc{{pid: 9, group: 0}, {pid: 10, group: 9}}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []int
			for _, p := range members(c.all, tag, leader, ours, before) {
				got = append(got, p.pid)
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("members %v, want %v", got, c.want)
			}
		})
	}
}

package config

import (
	"slices"
	"strings"

	"myip.co.kr/hearth"
	"myip.co.kr/hearth/internal/suggest"
)

var modalities = []string{"text", "image", "audio", "video", "file"}

// parameters checks the names of request parameters.
func (k *checker) parameters(path string, names []string) {
	if names != nil && len(names) == 0 {
		k.add(path, "is empty, as if it took no parameter at all", "list what it takes, or remove the line")
	}
	known := hearth.ParamNames()
	for i, n := range names {
		if slices.Contains(known, n) {
			continue
		}
		remedy := "known are: " + strings.Join(known, ", ")
		if near := suggest.Nearest(strings.ReplaceAll(n, "-", "_"), known, 1); len(near) > 0 {
			remedy = "did you mean " + near[0] + "?"
		}
		k.add(at(path, i), "is not a request parameter: "+quote(n), remedy)
	}
}

// input checks kinds of input; an absent list is somebody else's matter.
func (k *checker) input(path string, kinds []string) {
	if kinds != nil && len(kinds) == 0 {
		k.add(path, "is empty", "list at least text, or remove the line")
	}
	for i, in := range kinds {
		if !slices.Contains(modalities, in) {
			k.add(at(path, i), "is not a kind of input", "write one of: "+strings.Join(modalities, ", "))
		}
	}
}

// policy finds a declaration that contradicts itself: what is not retained cannot be collected.
func (k *checker) policy(path, collection string, zdr *bool) {
	if !k.given(path + ".zdr") {
		path += ".data_collection"
	} else {
		path += ".zdr"
	}
	if collection == "allow" && zdr != nil && *zdr {
		k.add(path, "makes zdr: true and data_collection: allow stand together, which exclude each other", "keep the one that the provider's terms say")
	}
}

// offerPolicy checks what an offer and its provider declare together, if the offer has a part in it.
func (k *checker) offerPolicy(path string, p *Provider, o *Offer) {
	if o.DataCollection == "" && o.ZDR == nil {
		return
	}
	zdr := o.ZDR
	if zdr == nil {
		zdr = p.ZDR
	}
	k.policy(path, orElse(o.DataCollection, p.DataCollection), zdr)
}

package chain

import (
	"strings"

	"myip.co.kr/hearth"
)

// wanted is a model asked for, and what its id's suffixes want its endpoints sorted by ("" = nothing).
type wanted struct {
	model *hearth.Model
	sort  hearth.Sort
}

// resolve finds the models asked for. In a list an unknown id is simply no candidate; alone it is an error.
func (b *builder) resolve() ([]wanted, *hearth.Error) {
	cat := b.Views.Catalog
	names := b.Request.Models
	if len(names) == 0 {
		if cat.DefaultModel == "" {
			return nil, hearth.Invalid("model", "no model was named and no default_model is configured; send \"model\" or \"models\"")
		}
		names = []string{cat.DefaultModel}
	}
	models := make([]wanted, 0, len(names))
	for _, name := range names {
		if w := resolve(cat, name); w.model != nil {
			models = append(models, w)
			continue
		}
		if !b.Request.FromList {
			return nil, b.unknownModel(name)
		}
		b.note("unknown model " + clean(name) + " is no candidate")
		b.chain.Drops = append(b.chain.Drops, hearth.Drop{Model: name, Stage: hearth.StageUnknown, Reason: "no such model"})
	}
	if len(models) == 0 {
		return nil, b.empty()
	}
	return models, nil
}

// resolve finds the model that a name means: an id or an alias as it stands, else without the sorting suffixes at its
// end, else without those that stand before a suffix of the id itself ("a/b:nitro:free" is "a/b:free", fastest first).
// Of several suffixes the last wins.
func resolve(cat *hearth.Catalog, name string) wanted {
	var w wanted
	for rest := name; ; {
		if w.model = cat.Resolve(rest); w.model != nil {
			return w
		}
		i := strings.LastIndexByte(rest, ':')
		if i < 0 {
			return w
		}
		by := suffixSort(rest[i+1:])
		if by == "" {
			break
		}
		if w.sort == "" {
			w.sort = by
		}
		rest = rest[:i]
	}
	var kept []string
	for part := range strings.SplitSeq(name, ":") {
		if by := suffixSort(part); by != "" {
			w.sort = by
		} else {
			kept = append(kept, part)
		}
	}
	if w.sort != "" {
		w.model = cat.Resolve(strings.Join(kept, ":"))
	}
	return w
}

// suffixSort is the sort that a suffix of a model id stands for, "" for none.
func suffixSort(suffix string) hearth.Sort {
	switch suffix {
	case "floor":
		return hearth.SortPrice
	case "nitro":
		return hearth.SortThroughput
	case "exacto":
		return hearth.SortTools
	}
	return ""
}

// suffixOf is the suffix that stands for a sort.
func suffixOf(by hearth.Sort) string {
	switch by {
	case hearth.SortPrice:
		return ":floor"
	case hearth.SortThroughput:
		return ":nitro"
	case hearth.SortTools:
		return ":exacto"
	}
	return ""
}

// prepare finds out what the request asks for, and notes what of it has no effect.
func (b *builder) prepare(models []wanted) {
	b.weigh()
	p := &b.Request.Prefs
	if b.strict || b.sorted {
		b.noteNames()
	}
	if len(p.Order) > 0 && p.Sort != "" {
		b.note("provider.sort has no effect: provider.order is given")
	}
	if p.AcrossModels && (p.Sort == "" && !b.bars || len(p.Order) > 0) {
		b.note(`provider.sort.partition "none" has no effect without a sort`)
	}
	b.noteSuffixes(models)
}

// weigh finds out once what the request asks for.
func (b *builder) weigh() {
	p := &b.Request.Prefs
	b.policy = b.Key != nil && (len(b.Key.Models) > 0 || len(b.Key.Providers) > 0 || b.Key.LocalOnly)
	b.strict = len(p.Only) > 0 || len(p.Ignore) > 0 || len(p.Quantizations) > 0 || p.NoCollection || p.ZDR || p.RequireParams || p.MaxPrice.Set()
	b.needs = b.Request.Tools || b.Request.Params&hearth.ParamResponseFormat != 0 || len(b.Request.Media) > 0 || b.Request.MediaURLs > 0
	b.bars = p.MinThroughput != (hearth.Percentiles{}) || p.MaxLatency != (hearth.Percentiles{})
	b.sorted = len(p.Order) > 0 || p.Sort != "" || b.bars && p.AcrossModels
}

// noteSuffixes says which suffixes are overruled, and what they overrule.
func (b *builder) noteSuffixes(models []wanted) {
	p := &b.Request.Prefs
	for _, w := range models {
		if w.sort == "" {
			continue
		}
		b.sorted = true
		switch {
		case len(p.Order) > 0:
			b.note("suffix " + suffixOf(w.sort) + " has no effect: provider.order is given")
		case p.AcrossModels && p.Sort != "":
			b.note("suffix " + suffixOf(w.sort) + " has no effect: provider.sort sorts the endpoints of all models together")
		case p.Sort != "" && p.Sort != w.sort:
			b.note("provider.sort has no effect on " + w.model.ID + ": it is asked for with suffix " + suffixOf(w.sort))
		}
	}
}

// sortOf is what the endpoints of a model are to be sorted by ("" under order); chosen is false when nothing was asked.
func (b *builder) sortOf(w wanted) (by hearth.Sort, chosen bool) {
	p := &b.Request.Prefs
	switch {
	case len(p.Order) > 0:
		return "", true
	case p.AcrossModels && p.Sort != "":
		return p.Sort, true
	case w.sort != "":
		return w.sort, true
	}
	return p.Sort, p.Sort != ""
}

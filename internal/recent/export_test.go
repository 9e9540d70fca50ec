package recent

// Len returns how many hashes are counted in the newer filter.
func (f *Filter) Len() int64 { return f.blooms[0].Load().n.Load() }

// Fill makes the newer filter count as full.
func (f *Filter) Fill() { f.blooms[0].Load().n.Store(Full) }

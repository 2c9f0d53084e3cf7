//! One module per published version of the WIT package; each turns its version into the host's own
//! words, so a guest built against an old version runs for ever.

pub(super) mod v0_1;

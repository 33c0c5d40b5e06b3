//! What every command works with.

use crate::args::Common;
use crate::store::Place;
use crate::talk::Talk;

/// What every command works with.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) place: Place,
    pub(crate) talk: Talk,
    pub(crate) json: bool,
}

impl Context {
    pub(crate) fn new(common: Common) -> Self {
        Self {
            place: Place::find(common.store),
            talk: Talk::new(common.quiet),
            json: common.json,
        }
    }
}

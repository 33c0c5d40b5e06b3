//! Asking the model to go on from a partial answer.

use crate::error::Error;
use crate::proto::dialect::{
    ContinuationForm, DEFAULT_INSTRUCTION, NotContinuable, Request, Splicer, continuation,
    preferred_form,
};
use crate::proto::model::{Answer, Dialect, HttpRequest};

/// A continuation that is ready to be sent.
#[derive(Debug)]
pub(super) struct Continuing {
    pub(super) request: HttpRequest,
    pub(super) splicer: Splicer,
    pub(super) form: ContinuationForm,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub(super) enum Impossible {
    #[error("the dialect {0} has no form for it")]
    Dialect(Dialect),
    #[error(transparent)]
    Answer(#[from] NotContinuable),
    #[error("its request cannot be built: {}", .0.message())]
    Request(Error),
}

impl Continuing {
    /// The request that goes on with this answer, in this form or in the one
    /// that the model takes.
    pub(super) fn new(
        request: &Request,
        answer: &Answer,
        form: Option<ContinuationForm>,
    ) -> Result<Self, Impossible> {
        if request.dialect() != Dialect::AnthropicMessages {
            return Err(Impossible::Dialect(request.dialect()));
        }
        let body = String::from_utf8_lossy(request.body());
        let build = |form| continuation(&body, answer, form, DEFAULT_INSTRUCTION);
        let preferred = preferred_form(request.model().unwrap_or_default());
        let continuation = match form {
            Some(form) => build(form)?,
            // What the request says may rule out the form that the model takes.
            None => match build(preferred) {
                Err(NotContinuable::PrefillWithThinking) => build(preferred.other())?,
                other => other?,
            },
        };
        let splicer = Splicer::new(&continuation, answer);
        let form = continuation.form;
        let request = request
            .with_body(continuation.body)
            .map_err(Impossible::Request)?
            .send();
        Ok(Self {
            request,
            splicer,
            form,
        })
    }
}

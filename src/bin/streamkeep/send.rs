//! `streamkeep send`.

use crate::args::SendArgs;
use crate::context::Context;
use crate::credential;
use crate::exit::Exit;
use crate::session::Session;
use crate::signals::Signals;
use crate::store;
use crate::values;
use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::Path;
use streamkeep::client::Attached;
use streamkeep::proto::model::Seq;
use streamkeep::{Cursor, Dialect, Error, ErrorKind, Request, Result};

/// The largest request body that is read. No provider takes more.
const MAX_BODY: u64 = 256 << 20;

pub(crate) async fn run(context: &Context, args: SendArgs) -> Result<Exit> {
    let dialect = dialect(&args)?;
    let body = body(context, &args.file)?;
    let mut request = Request::new(dialect, args.url.as_str(), body)?;
    for header in &args.headers {
        let (name, value) = values::header(header)?;
        request = request.with_header(name, value)?;
    }
    let credential = credential::find(&args.credential, dialect, &args.url, &context.talk)?;

    let store = context.place.open_to_write().await?;
    let mut builder = args.limits.apply(store::client(store));
    if let Some(credential) = credential {
        builder = builder.credential(credential);
    }
    let client = builder.build()?;
    let mut call = client.call(request).hold(args.hold);
    let hints = context.place.hints().with_credential(&args.credential);
    let session = Session::begin(context, client, hints, "send");
    if let Some(key) = args.key {
        session.names(&key);
        store::outlive(&context.place, session.client(), &key, &context.talk).await?;
        call = call.key(key);
    }
    let signals = Signals::install()?;
    let handle = call.start().await?;
    session.names(handle.key());
    let how = match handle.attached() {
        Attached::Started => "",
        Attached::Existing => "; it was answered before: nothing is sent, this is what is kept",
        Attached::TookOver => "; its writer had ended: going on for it",
    };
    context.talk.say(format_args!(
        "key {} in {}{how}",
        handle.key(),
        context.place
    ));
    let start = Cursor::new(handle.generation(), Seq::ZERO);
    session.run(handle, signals, start).await
}

fn dialect(args: &SendArgs) -> Result<Dialect> {
    args.dialect.or_else(|| values::dialect_of_url(&args.url)).ok_or_else(|| {
        Error::new(
            ErrorKind::Config,
            "expected a URL whose path ends in /chat/completions, /responses, /messages or :streamGenerateContent, but found another; \
             name its vocabulary with --dialect",
        )
    })
}

fn body(context: &Context, file: &Path) -> Result<Vec<u8>> {
    if file.as_os_str() == "-" {
        if std::io::stdin().is_terminal() {
            context
                .talk
                .say("reading the request body from the terminal; Ctrl-D ends it");
        }
        return read(std::io::stdin().lock(), "stdin");
    }
    let name = file.display().to_string();
    let opened = File::open(file).map_err(|error| unreadable(&name).with_source(error))?;
    read(opened, &name)
}

/// Nothing runs yet that a slow pipe could hold up, and Ctrl-C still ends the
/// process by itself.
fn read(from: impl Read, name: &str) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    from.take(MAX_BODY.saturating_add(1))
        .read_to_end(&mut body)
        .map_err(|error| unreadable(name).with_source(error))?;
    if u64::try_from(body.len()).unwrap_or(u64::MAX) > MAX_BODY {
        return Err(Error::new(
            ErrorKind::InvalidRequest,
            format!(
                "expected a request body of at most {MAX_BODY} bytes in {name}, but found a larger one"
            ),
        ));
    }
    Ok(body)
}

fn unreadable(name: &str) -> Error {
    Error::new(
        ErrorKind::Config,
        format!("expected a request body in {name}, but could not read it"),
    )
}

//! Secrets where they do not belong: the mistake is told, and not the secret.

use crate::Run;
use streamkeep::client::{Client, Credential};
use streamkeep::proto::cost::PriceTable;
use streamkeep::proto::operation::Route;
use streamkeep::{Dialect, ErrorKind, Key, Request};

const URL: &str = "https://api.upstream.test/v1/chat/completions";

pub(crate) fn play(run: &mut Run) {
    let new = |url: String, body: String| Request::new(Dialect::OpenAiChat, url, body);
    let fine = || new(URL.to_owned(), "{}".to_owned()).unwrap();
    for opaque in [false, true] {
        let story = "a mistake";
        let mut next = || {
            if opaque {
                run.opaque(story)
            } else {
                run.secret(story)
            }
        };
        let escaped = |secret: &str| {
            secret
                .replace('+', "%2B")
                .replace('/', "%2F")
                .replace('=', "%3D")
        };
        let mut errors = Vec::new();
        for url in [
            format!("https://{}@api.upstream.test/v1/messages", next()),
            format!("https://user:{}@api.upstream.test/v1/messages", next()),
            format!("{URL}?api_key={}", escaped(&next())),
            format!("{URL}?x=1&Access-Token={}", escaped(&next())),
            format!("{URL}#{}", next()),
            format!("{URL}?x={} and a space", next()),
            format!("ftp://{}/", next()),
            next(),
            format!("https://{}:99999/", next().replace(['+', '/', '='], "")),
        ] {
            errors.push(new(url, "{}".to_owned()).unwrap_err());
        }
        for body in [
            next(),
            format!("\"{}\"", next()),
            format!("{{\"model\": {}}}", next()),
        ] {
            errors.push(new(URL.to_owned(), body).unwrap_err());
        }
        for (name, value) in [
            ("Authorization".to_owned(), format!("Bearer {}", next())),
            ("x-api-key".to_owned(), next()),
            ("cookie".to_owned(), next()),
            ("x-ok".to_owned(), format!("{}\n", next())),
            (format!("bad name {}", next()), "x".to_owned()),
        ] {
            errors.push(fine().with_header(name, value).unwrap_err());
        }
        let place = format!("{URL}?key={}", escaped(&next()));
        errors.push(Route::like("other", &fine(), place, None).unwrap_err());
        errors.push(Key::new(format!("{} with a space", next())).unwrap_err());
        let credential = Credential::header(next(), "x");
        run.debug(story, &credential);
        let builder = Client::builder()
            .credential(Credential::api_key(run.secret(story)))
            .lease(std::time::Duration::ZERO);
        run.debug(story, &builder);
        errors.push(builder.build().unwrap_err());
        for error in &errors {
            assert!(
                matches!(error.kind(), ErrorKind::InvalidRequest | ErrorKind::Config),
                "{error}"
            );
            run.error(story, error);
        }
        let secret = run.secret(story);
        let table =
            format!(r#"{{"currency":"USD","models":{{"m":{{"input":"{secret}","output":1}}}}}}"#);
        let error = serde_json::from_str::<PriceTable>(&table).unwrap_err();
        run.text(story, &error);
    }
}

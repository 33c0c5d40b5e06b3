//! The same over sockets: what the crates below log and say is told too.

use crate::stories::{RETRY, key, request};
use crate::{Place, Run};
use streamkeep::store::MemoryStore;
use streamkeep::testkit::{ClosedPort, Failure, Fault, Scenario, Upstream};
use streamkeep::{Client, Credential, Dialect, Error};

/// What a server does with the key it was sent.
type Wrong = fn(&str) -> Fault;

pub(crate) async fn play(run: &mut Run) {
    let location = |key: &str| {
        let place = format!("http://{key}:{key}@127.0.0.1:9/?api_key={key}#{key}");
        Fault::status(307).header("Location", place)
    };
    let quote = |key: &str| Fault::failure(Failure::Auth).message(format!("wrong key {key}"));
    let cut = |_: &str| Fault::reset().after_event(3);
    let page = |key: &str| {
        Fault::status(500)
            .header("content-type", "text/html")
            .body(format!("<html><title>{key}</title>"))
    };
    let stories: [(&str, Wrong); 4] = [
        ("redirect over a socket", location),
        ("401 over a socket", quote),
        ("cut over a socket", cut),
        ("page over a socket", page),
    ];
    for (story, fault) in stories {
        let (secret, prompt) = (run.secret(story), run.prompt(story));
        let output = run.output(story);
        // A fault that leaves no output is followed by a whole answer.
        let scenario = Scenario::openai_chat()
            .text(format!("{output} and some more words of it").as_str())
            .on(1, fault(&secret));
        let upstream = Upstream::start(scenario).await.unwrap();
        let client = Client::builder()
            .store(MemoryStore::new())
            .retry(RETRY)
            .credential(Credential::api_key(secret))
            .build()
            .unwrap();
        for number in 1..=2 {
            let asked = request(Dialect::OpenAiChat, &upstream.url(), &prompt);
            let call = client.call(asked).key(key(&format!("{story} {number}")));
            see(run, story, &client, call).await;
        }
        assert!(upstream.requests()[0].header("authorization").is_some());
    }
    let story = "nobody listens";
    let (secret, prompt) = (run.secret(story), run.prompt(story));
    let closed = ClosedPort::take().unwrap();
    let client = Client::builder()
        .retry(RETRY)
        .credential(Credential::header("x-secret", secret))
        .build()
        .unwrap();
    let asked = request(Dialect::OpenAiChat, &closed.url(), &prompt);
    see(run, story, &client, client.call(asked).key(key(story))).await;
}

async fn see(run: &mut Run, story: &str, client: &Client, call: streamkeep::client::Call) {
    let handle = call.start().await.unwrap();
    run.debug(story, client);
    run.debug(story, &handle.outcome().await.unwrap());
    if let Err(unfinished) = handle.complete().await {
        run.error(story, &*unfinished);
        run.error(story, &Error::from(unfinished));
    }
    let mut reader = handle.subscribe();
    let mut records = Vec::new();
    while let Some(record) = reader.next().await.unwrap() {
        records.push(record);
    }
    run.catch(Place::Journal, story, format!("{records:?}"));
    run.debug(story, client.store());
}

//! The client against a fake endpoint: a server in this process that answers well, lies, is slow, breaks off.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use eh_model_client::{Chat, Endpoint, ModelClient, ModelError, Secret};
use serde_json::{json, Value};

/// What the fake does with one request.
#[derive(Clone)]
enum Does {
    /// Answers with this status and body, and these further header lines.
    Answers(u16, String, &'static str),
    /// Announces more than it sends.
    BreaksOff,
    /// Says nothing until the client is gone.
    Hangs,
    /// Sends without an end.
    Floods,
}

/// A fake endpoint. It does one thing after the other, the last one again and again.
struct FakeEndpoint {
    address: String,
    heard: Arc<Mutex<Vec<String>>>,
}

impl FakeEndpoint {
    fn that(does: Vec<Does>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/v1", listener.local_addr().unwrap());
        let heard = Arc::new(Mutex::new(Vec::new()));
        let told = heard.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let turn = told.lock().unwrap().len();
                let act = does[turn.min(does.len() - 1)].clone();
                let told = told.clone();
                let request = read_request(&stream);
                told.lock().unwrap().push(request);
                // A client that is gone is no matter.
                let _ = respond(stream, act);
            }
        });
        FakeEndpoint { address, heard }
    }

    fn endpoint(&self) -> Endpoint {
        let mut endpoint = Endpoint::new(&self.address, "fake-model");
        endpoint.retry.first_wait = Duration::from_millis(1);
        endpoint
    }

    fn requests(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

fn read_request(mut stream: &TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let n = stream.read(&mut part).unwrap_or(0);
        bytes.extend_from_slice(&part[..n]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let complete = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let length = head.lines().find_map(|l| {
                l.to_lowercase()
                    .strip_prefix("content-length:")?
                    .trim()
                    .parse()
                    .ok()
            });
            body.len() >= length.unwrap_or(0)
        });
        if n == 0 || complete {
            return text;
        }
    }
}

fn respond(mut stream: TcpStream, act: Does) -> std::io::Result<()> {
    match act {
        Does::Answers(status, body, lines) => write!(
            stream,
            "HTTP/1.1 {status} S\r\n{lines}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ),
        Does::BreaksOff => write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{{\"choi"
        ),
        Does::Hangs => {
            // Until the client closes its side.
            let _ = stream.read(&mut [0; 1])?;
            Ok(())
        }
        Does::Floods => {
            write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
            loop {
                stream.write_all(&[b' '; 4096])?;
            }
        }
    }
}

fn says(text: &str) -> Does {
    let body = json!({"choices": [{"finish_reason": "stop", "message": {"content": text}}]});
    Does::Answers(200, body.to_string(), "")
}

fn status(code: u16) -> Does {
    Does::Answers(code, "because I say so".into(), "")
}

fn chat() -> Chat {
    Chat {
        system: "s".into(),
        text: "t".into(),
        pictures: vec![],
        schema: None,
    }
}

/// Waits as an executor that is not ours does.
fn ask(endpoint: Endpoint) -> Result<String, ModelError> {
    let client = ModelClient::start(endpoint).unwrap();
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(client.ask(chat()))
}

#[test]
fn a_good_answer_comes_back_and_the_key_goes_with_the_question() {
    let fake = FakeEndpoint::that(vec![says("yes")]);
    let mut endpoint = fake.endpoint();
    endpoint.key = Some(Secret::new("sk-1", "api_key_env").unwrap());
    assert_eq!(ask(endpoint).unwrap(), "yes");
    let request = &fake.requests()[0];
    assert!(
        request.starts_with("POST /v1/chat/completions HTTP/1.1"),
        "{request}"
    );
    assert!(
        request
            .to_lowercase()
            .contains("authorization: bearer sk-1"),
        "{request}"
    );
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body["model"], "fake-model");
}

#[test]
fn what_passes_is_tried_again_and_what_does_not_is_told_at_once() {
    let fake = FakeEndpoint::that(vec![status(503), Does::BreaksOff, says("at last")]);
    assert_eq!(ask(fake.endpoint()).unwrap(), "at last");
    assert_eq!(fake.requests().len(), 3);

    let fake = FakeEndpoint::that(vec![status(500)]);
    let error = ask(fake.endpoint()).unwrap_err().to_string();
    assert!(
        error.contains("HTTP 500: because I say so (tried 3 times)"),
        "{error}"
    );
    assert_eq!(fake.requests().len(), 3);

    for code in [400, 401, 404, 413, 422] {
        let fake = FakeEndpoint::that(vec![status(code), says("yes")]);
        let error = ask(fake.endpoint()).unwrap_err();
        assert!(
            matches!(error, ModelError::Status { status, .. } if status == code),
            "{error}"
        );
        assert_eq!(fake.requests().len(), 1, "{code}");
    }
}

#[test]
fn a_redirection_is_not_followed_so_that_the_key_stays_here() {
    let other = FakeEndpoint::that(vec![says("stolen")]);
    let line: &'static str = Box::leak(format!("Location: {}\r\n", other.address).into_boxed_str());
    let fake = FakeEndpoint::that(vec![Does::Answers(307, String::new(), line)]);
    let error = ask(fake.endpoint()).unwrap_err();
    assert!(error.to_string().contains("HTTP 307"), "{error}");
    assert!(other.requests().is_empty());
}

#[test]
fn who_is_slow_broken_off_or_endless_gives_no_answer() {
    let once = |does: Does, change: &dyn Fn(&mut Endpoint)| {
        let fake = FakeEndpoint::that(vec![does]);
        let mut endpoint = fake.endpoint();
        endpoint.retry.tries = 1;
        change(&mut endpoint);
        ask(endpoint).unwrap_err()
    };
    let error = once(Does::Hangs, &|e| e.timeout = Duration::from_millis(100));
    assert!(matches!(error, ModelError::Slow(_)), "{error}");
    let error = once(Does::BreaksOff, &|_| {});
    assert!(
        matches!(error, ModelError::CutOff { bytes: 6, .. }),
        "{error}"
    );
    let error = once(Does::Floods, &|e| e.max_answer = 10_000);
    assert!(
        matches!(error, ModelError::AnswerTooLarge { limit: 10_000 }),
        "{error}"
    );
    let error = once(Does::Answers(200, "<html>".into(), ""), &|_| {});
    assert!(matches!(error, ModelError::Malformed { .. }), "{error}");
    // All tries share one budget, and a wait that does not fit is not begun.
    let error = once(status(429), &|e| {
        e.retry.tries = 9;
        e.retry.first_wait = Duration::from_secs(60);
        e.retry.longest_wait = Duration::from_secs(60);
        e.budget = Duration::from_secs(10);
    });
    assert!(matches!(error, ModelError::OutOfTime { .. }), "{error}");
}

/// The vectors of two texts.
fn embed(endpoint: Endpoint) -> Result<Vec<Vec<f32>>, ModelError> {
    let client = ModelClient::start(endpoint).unwrap();
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(client.embed(vec!["cup".into(), "mug".into()]))
}

#[test]
fn texts_become_vectors_and_what_goes_wrong_is_told() {
    let good =
        json!({"data": [{"index": 0, "embedding": [2, 0]}, {"index": 1, "embedding": [0, 3]}]});
    let fake = FakeEndpoint::that(vec![status(503), Does::Answers(200, good.to_string(), "")]);
    assert_eq!(embed(fake.endpoint()).unwrap(), [[1.0, 0.0], [0.0, 1.0]]);
    let requests = fake.requests();
    assert!(
        requests[1].starts_with("POST /v1/embeddings "),
        "{requests:?}"
    );
    assert!(
        requests[1].contains(r#""input":["cup","mug"]"#),
        "{requests:?}"
    );

    let fails = |does: Does, change: &dyn Fn(&mut Endpoint)| {
        let fake = FakeEndpoint::that(vec![does]);
        let mut endpoint = fake.endpoint();
        endpoint.retry.tries = 1;
        change(&mut endpoint);
        embed(endpoint).unwrap_err()
    };
    let error = fails(Does::Hangs, &|e| e.timeout = Duration::from_millis(100));
    assert!(matches!(error, ModelError::Slow(_)), "{error}");
    let error = fails(Does::Floods, &|e| e.max_answer = 10_000);
    assert!(
        matches!(error, ModelError::AnswerTooLarge { .. }),
        "{error}"
    );
    let error = fails(Does::BreaksOff, &|_| {});
    assert!(matches!(error, ModelError::CutOff { .. }), "{error}");
    let error = fails(says("I am a chat"), &|_| {});
    assert!(
        matches!(error, ModelError::MalformedVectors { .. }),
        "{error}"
    );
}

#[test]
fn nobody_there_is_told_without_the_key() {
    // A port that was just free.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut endpoint = Endpoint::new(&format!("http://127.0.0.1:{port}/v1"), "m");
    endpoint.key = Some(Secret::new("sk-hidden", "api_key_env").unwrap());
    endpoint.retry.tries = 1;
    let error = ask(endpoint).unwrap_err().to_string();
    assert!(error.contains("can't be reached"), "{error}");
    assert!(!error.contains("hidden"), "{error}");
}

#[test]
fn questions_that_would_wait_too_long_are_refused_and_dropped_ones_end() {
    let fake = FakeEndpoint::that(vec![Does::Hangs]);
    let mut endpoint = fake.endpoint();
    (endpoint.at_once, endpoint.waiting) = (1, 1);
    let client = ModelClient::start(endpoint).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    // One is asked, one may wait; how far the thread has got meanwhile decides whether a third has room.
    let mut open: Vec<_> = (0..3).map(|_| Box::pin(client.ask(chat()))).collect();
    let refused = runtime.block_on(client.ask(chat())).unwrap_err();
    assert!(
        matches!(refused, ModelError::Busy { waiting: 1 }),
        "{refused}"
    );
    open.clear();
    drop(client);
}

#[cfg(feature = "tls")]
#[test]
fn a_server_without_tls_is_no_answer_to_https() {
    let fake = FakeEndpoint::that(vec![says("yes")]);
    let mut endpoint = fake.endpoint();
    endpoint.url = endpoint.url.replace("http:", "https:");
    endpoint.connect_timeout = Duration::from_millis(200);
    endpoint.retry.tries = 1;
    let error = ask(endpoint).unwrap_err();
    assert!(matches!(error, ModelError::Unreachable { .. }), "{error}");
}

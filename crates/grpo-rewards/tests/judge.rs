//! The judge against a server that misbehaves.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)] // Helpers of tests, too, say what they expect.
#![cfg(feature = "judge")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use grpo_core::{Completion, FinishReason, LogProbKind, OnRewardError, Reward, RewardFn, Sample};
use grpo_rewards::compose::Parallel;
use grpo_rewards::judge::{Endpoint, JudgeError, JudgeReward, Message, Scale};

/// A server that answers request n with what `answer(n)` says, and counts how many it serves at once.
struct Server {
    address: String,
    served: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

fn serve(answer: impl Fn(usize) -> Option<(u16, &'static str, String)> + Send + Sync + 'static) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}/v1", listener.local_addr().expect("an address"));
    let (served, most, now) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (answer, count, high) = (Arc::new(answer), Arc::clone(&served), Arc::clone(&most));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (answer, count, high, now) = (Arc::clone(&answer), Arc::clone(&count), Arc::clone(&high), Arc::clone(&now));
            std::thread::spawn(move || {
                high.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let request = count.fetch_add(1, Ordering::SeqCst);
                respond(stream, answer(request));
                now.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    Server { address, served, most }
}

fn respond(mut stream: TcpStream, answer: Option<(u16, &'static str, String)>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).unwrap_or(0) > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        line.clear();
    }
    let mut body = vec![0; length];
    let _ = reader.read_exact(&mut body);
    let Some((status, headers, text)) = answer else {
        std::thread::sleep(Duration::from_secs(3));
        return;
    };
    let _ = write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{text}", text.len());
}

fn says(text: &str) -> Option<(u16, &'static str, String)> {
    Some((200, "", serde_json::json!({"choices": [{"message": {"role": "assistant", "content": text}}]}).to_string()))
}

fn endpoint(server: &Server) -> Endpoint {
    Endpoint::new(server.address.clone(), "judge").expect("an address").timeout(Duration::from_millis(500)).pause(Duration::from_millis(5))
}

fn completion() -> Completion {
    let sample = Sample {
        tokens: vec![1],
        log_probs: vec![0.0],
        log_prob_kind: LogProbKind::Tempered,
        temperature: 1.0,
        finish: FinishReason::EndToken,
        text: "an answer".to_owned(),
        policy_version: None,
    };
    Completion::from_sample(sample, 0).expect("a completion")
}

fn reward(server: &Server) -> JudgeReward<String> {
    JudgeReward::new("judge", endpoint(server), Scale::new(0.0, 10.0).expect("a scale"), |question: &String, c: &Completion| {
        vec![Message::system("Score from 0 to 10."), Message::user(format!("{question}\n{}", c.text))]
    })
}

#[test]
fn a_score_becomes_a_reward() {
    let server = serve(|_| says("<think>10?</think> <score>7.5</score>"));
    assert_eq!(reward(&server).score(&"q".to_owned(), &completion()).unwrap(), Reward::Outcome(0.75));
}

#[test]
fn passing_failures_are_tried_again() {
    let server = serve(|request| match request {
        0 => Some((503, "", "busy".to_owned())),
        1 => Some((429, "retry-after: 0\r\n", "slow down".to_owned())),
        _ => says("Score: 4"),
    });
    assert_eq!(reward(&server).score(&"q".to_owned(), &completion()).unwrap(), Reward::Outcome(0.4));
    assert_eq!(server.served.load(Ordering::SeqCst), 3);
}

#[test]
fn failures_are_missing_and_counted_and_never_zero() {
    for (answer, what) in [
        (None, "silence"),
        (Some((500, "", "broken".to_owned())), "a broken server"),
        (Some((200, "", "{\"choices\": []}".to_owned())), "no choice"),
        (Some((200, "", "not JSON".to_owned())), "no JSON"),
        (says("I cannot say."), "no score"),
        (says("99"), "a score off the scale"),
    ] {
        let server = serve(move |_| answer.clone());
        let judge = reward(&server);
        assert_eq!(judge.score(&"q".to_owned(), &completion()).unwrap(), Reward::NotApplicable, "{what}");
        assert_eq!(judge.failures(), 1, "{what}");
    }
    let server = serve(|_| says("I cannot say."));
    assert!(reward(&server).on_failure(OnRewardError::Stop).score(&"q".to_owned(), &completion()).is_err());
}

#[test]
fn a_refusal_is_final_and_a_silence_ends_in_time() {
    let server = serve(|_| Some((401, "", "who are you?".to_owned())));
    assert!(matches!(endpoint(&server).ask(&[Message::user("q")]), Err(JudgeError::Refused { status: 401, .. })));
    assert_eq!(server.served.load(Ordering::SeqCst), 1);
    let silent = serve(|_| None);
    let start = Instant::now();
    assert!(matches!(endpoint(&silent).tries(2).ask(&[Message::user("q")]), Err(JudgeError::Unreachable { tries: 2, .. })));
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}

#[test]
fn no_more_requests_run_at_once_than_allowed() {
    let server = serve(|_| {
        std::thread::sleep(Duration::from_millis(50));
        says("5")
    });
    let judge = JudgeReward::new("judge", endpoint(&server).at_once(2), Scale::new(0.0, 10.0).unwrap(), |_: &String, _: &Completion| {
        vec![Message::user("q")]
    });
    let group: Vec<Completion> = (0..8).map(|_| completion()).collect();
    let threads: Vec<_> = std::thread::scope(|scope| {
        let judge = &judge;
        let workers: Vec<_> = group.iter().map(|c| scope.spawn(move || judge.score(&"q".to_owned(), c).unwrap())).collect();
        workers.into_iter().map(|w| w.join().unwrap()).collect()
    });
    assert_eq!(threads, vec![Reward::Outcome(0.5); 8]);
    assert!(server.most.load(Ordering::SeqCst) <= 2);
    let parallel = Parallel::new(reward(&server)).score_group(&"q".to_owned(), &group).unwrap();
    assert_eq!(parallel, vec![Reward::Outcome(0.5); 8]);
}

#[test]
fn the_key_is_never_shown_and_addresses_are_checked() {
    let endpoint = Endpoint::new("https://example.org/v1/", "m").unwrap().key("very-secret");
    assert!(!format!("{endpoint:?}").contains("very-secret"));
    assert!(Endpoint::new("example.org", "m").is_err());
}

//! Asynchronous methods: typed calls that are awaited, and grains whose turns overlap, natively.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use granary_guest::prelude::*;
use granary_guest::testing::TestContext;

mod alone {
    use super::*;
    pub(crate) use contract::{Stop, TourRef};

    #[grain(interface = "test:concurrent/tour", refs = ["test:concurrent/tour"], wit = "tests/wit/concurrent")]
    #[derive(Default)]
    pub(crate) struct TourGrain {
        total: Persistent<u64>,
        rests: u32,
    }

    impl contract::Tour for TourGrain {
        async fn total(&mut self, keys: Vec<String>) -> Result<u64, String> {
            let calls = keys.iter().map(|key| async move { TourRef::get(key)?.concurrent().add(0).await });
            let totals = join_all(calls).await;
            totals.into_iter().try_fold(*self.total, |sum, total| Ok(sum + total.map_err(text)?))
        }

        async fn pass(&mut self, to: String, stop: Stop, note: Option<String>) -> Result<Stop, String> {
            let to = TourRef::get(to).map_err(text)?;
            to.concurrent().keep(stop, note).await.map_err(text)
        }

        async fn keep(&mut self, stop: Stop, note: Option<String>) -> Stop {
            Stop { tags: stop.tags.into_iter().chain(note).collect(), ..stop }
        }

        fn add(&mut self, amount: u64) -> u64 {
            let _ = self.total.update(|total| *total += amount);
            *self.total
        }

        async fn rest(&mut self) {
            self.rests += 1;
        }
    }

    fn text(error: CallError) -> String {
        error.to_string()
    }
}

mod overlapping {
    use super::*;
    use contract::{Stop, TourRef};

    #[grain(
        interface = "test:concurrent/tour",
        refs = ["test:concurrent/tour"],
        wit = "tests/wit/concurrent",
        grain_type = "open",
        reentrant
    )]
    #[derive(Default)]
    pub(crate) struct OpenGrain {
        total: u64,
        rests: u32,
    }

    impl contract::Tour for OpenGrain {
        async fn total(this: Shared<Self>, keys: Vec<String>) -> Result<u64, String> {
            for key in keys {
                let tour = TourRef::new(GrainRef { grain_type: "tour".into(), key });
                let total = tour.concurrent().add(0).await.map_err(|error| error.to_string())?;
                this.with(|grain| grain.total += total);
            }
            Ok(this.with(|grain| grain.total))
        }

        async fn pass(
            _this: Shared<Self>,
            _to: String,
            stop: Stop,
            _note: Option<String>,
        ) -> Result<Stop, String> {
            Ok(stop)
        }

        async fn keep(_this: Shared<Self>, stop: Stop, _note: Option<String>) -> Stop {
            stop
        }

        fn add(&mut self, amount: u64) -> u64 {
            self.total += amount;
            self.total
        }

        async fn rest(this: Shared<Self>) {
            this.with(|grain| grain.rests += 1);
        }
    }
}

use alone::{Stop, TourGrain, TourRef};

#[test]
fn calls_are_awaited_together_and_the_grain_keeps_its_state() {
    let context = TestContext::new();
    context.serve::<TourGrain>("tour");
    let (all, a, b) = (tour("all"), tour("a"), tour("b"));
    assert_eq!(a.add(3).unwrap() + b.add(4).unwrap() + all.add(5).unwrap(), 12);
    assert_eq!(all.total(&["a".to_owned(), "b".to_owned()]).unwrap(), 12);
    let stop = Stop { name: "pier".into(), tags: vec!["old".into()] };
    let passed = all.pass("a", &stop, Some("new")).unwrap();
    assert_eq!((passed.name.as_str(), passed.tags), ("pier", vec!["old".to_owned(), "new".to_owned()]));
    all.rest().unwrap();
}

#[test]
fn a_reentrant_grain_is_borrowed_step_by_step() {
    let context = TestContext::new();
    context.serve::<TourGrain>("tour");
    context.serve::<overlapping::OpenGrain>("open");
    tour("a").add(3).unwrap();
    let open = TourRef::new(GrainRef { grain_type: "open".into(), key: "x".into() });
    assert_eq!(open.add(1).unwrap(), 1);
    assert_eq!(open.total(&["a".to_owned(), "a".to_owned()]).unwrap(), 7);
    assert_eq!(open.add(1).unwrap(), 8, "what a turn did is kept");
    open.rest().unwrap();
}

fn tour(key: &str) -> TourRef {
    TourRef::new(GrainRef { grain_type: "tour".into(), key: key.into() })
}

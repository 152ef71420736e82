//! Transfers between real account grains, with faults in between.

use account::AccountGrain;
use granary_guest::testing::{Handle, TestContext};

use super::contract::{Account, Shortage, Transfer as _};
use super::*;

/// A bank with a desk, and alice who has 100.
fn bank() -> (TestContext, Handle<TransferGrain>) {
    let ctx = TestContext::new();
    ctx.serve::<AccountGrain>("account");
    let desk = ctx.activate::<TransferGrain>("desk").unwrap();
    AccountRef::get("alice").unwrap().deposit(100).unwrap();
    (ctx, desk)
}

fn transfer(desk: &Handle<TransferGrain>, amount: u64) -> Result<Receipt, TransferError> {
    desk.call(|desk| desk.transfer("alice".to_owned(), "bob".to_owned(), amount))
}

fn balances() -> (u64, u64) {
    let balance = |key| AccountRef::get(key).unwrap().balance().unwrap();
    (balance("alice"), balance("bob"))
}

#[test]
fn money_moves() {
    let (_ctx, desk) = bank();
    assert_eq!(transfer(&desk, 30), Ok(Receipt { source_balance: 70, target_balance: 30 }));
    assert_eq!(balances(), (70, 30));
}

#[test]
fn a_shortage_is_passed_on_and_nothing_moves() {
    let (_ctx, desk) = bank();
    let short = AccountError::InsufficientFunds(Shortage { balance: 100, needed: 101 });
    assert_eq!(transfer(&desk, 101), Err(TransferError::Refused(short)));
    assert_eq!(balances(), (100, 0));
}

#[test]
fn one_account_is_no_transfer() {
    let (_ctx, desk) = bank();
    let result = desk.call(|desk| desk.transfer("alice".to_owned(), "alice".to_owned(), 1));
    assert_eq!(result, Err(TransferError::SameAccount));
    assert_eq!(balances(), (100, 0));
}

#[test]
fn a_deposit_that_was_not_delivered_is_paid_back() {
    let (ctx, desk) = bank();
    ctx.fail_next_call("account", "deposit", CallError::NotDelivered("no silo".to_owned()));
    let error = transfer(&desk, 30).unwrap_err();
    assert_eq!(
        error,
        TransferError::Failed("account/bob was not credited: the call was not delivered: no silo".to_owned())
    );
    assert_eq!(balances(), (100, 0));
    assert!(desk.call(TransferGrain::unresolved).is_empty());
}

#[test]
fn a_conflict_at_the_target_is_paid_back() {
    let (ctx, desk) = bank();
    // The target is active before somebody else writes its balance.
    AccountRef::get("bob").unwrap().deposit(5).unwrap();
    ctx.put_state(AccountRef::get("bob").unwrap().grain_ref(), "balance", &7_u64);
    let error = transfer(&desk, 30).unwrap_err();
    assert!(matches!(error, TransferError::Failed(_)), "{error:?}");
    assert_eq!(balances(), (100, 7));
}

#[test]
fn a_lost_reply_is_an_unknown_outcome_and_is_noted_down() {
    let (ctx, desk) = bank();
    ctx.lose_next_reply("account", "deposit");
    let error = transfer(&desk, 30).unwrap_err();
    assert!(matches!(error, TransferError::UnknownOutcome(_)), "{error:?}");
    // Paying back would have made money out of nothing.
    assert_eq!(balances(), (70, 30));
    desk.kill();
    let unresolved = desk.call(TransferGrain::unresolved);
    assert_eq!(unresolved.len(), 1);
    assert_eq!((unresolved[0].source.as_str(), unresolved[0].amount), ("alice", 30));
}

#[test]
fn a_withdrawal_that_failed_before_it_ran_moves_nothing() {
    let (ctx, desk) = bank();
    ctx.fail_next_call("account", "withdraw", CallError::Overloaded(50));
    assert!(matches!(transfer(&desk, 30), Err(TransferError::Failed(_))));
    ctx.lose_next_reply("account", "withdraw");
    assert!(matches!(transfer(&desk, 30), Err(TransferError::UnknownOutcome(_))));
}

/// An account that takes money out and never in.
struct ClosedAccount;

impl Account for ClosedAccount {
    fn deposit(&mut self, _amount: u64) -> Result<u64, AccountError> {
        Err(AccountError::LimitExceeded)
    }

    fn withdraw(&mut self, _amount: u64) -> Result<u64, AccountError> {
        Ok(0)
    }

    fn balance(&mut self) -> u64 {
        0
    }
}

#[test]
fn money_that_cannot_be_paid_back_is_reported() {
    let ctx = TestContext::new();
    contract::account::mock(&ctx, "account", |_grain| ClosedAccount);
    let desk = ctx.activate::<TransferGrain>("desk").unwrap();
    let error = transfer(&desk, 30).unwrap_err();
    assert!(
        matches!(&error, TransferError::UnknownOutcome(text) if text.ends_with("could not be paid back")),
        "{error:?}"
    );
}

#[test]
fn without_account_grains_nothing_happens() {
    let ctx = TestContext::new();
    let desk = ctx.activate::<TransferGrain>("desk").unwrap();
    assert!(matches!(transfer(&desk, 30), Err(TransferError::Failed(_))));
}

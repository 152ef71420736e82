//! An account of the bank example. Its balance is in the store before a change is acknowledged, so it survives
//! the death of every silo.

use granary_guest::prelude::*;

use contract::{AccountError, Shortage};

/// One account; its key is the owner.
#[grain(interface = "acme:bank/account", wit = "../wit")]
#[derive(Debug, Default)]
pub struct AccountGrain {
    balance: Persistent<u64>,
}

impl contract::Account for AccountGrain {
    fn deposit(&mut self, amount: u64) -> Result<u64, AccountError> {
        let balance = self.balance.checked_add(amount).ok_or(AccountError::LimitExceeded)?;
        self.keep(balance)
    }

    fn withdraw(&mut self, amount: u64) -> Result<u64, AccountError> {
        let short = Shortage { balance: *self.balance, needed: amount };
        let balance = self.balance.checked_sub(amount).ok_or(AccountError::InsufficientFunds(short))?;
        self.keep(balance)
    }

    fn balance(&mut self) -> u64 {
        *self.balance
    }
}

impl AccountGrain {
    /// Writes the new balance; in memory it changes only when it is stored.
    fn keep(&mut self, balance: u64) -> Result<u64, AccountError> {
        self.balance.set(balance)?;
        Ok(balance)
    }
}

impl From<StateError> for AccountError {
    fn from(error: StateError) -> Self {
        match error {
            // The host ends the activation after a conflict, so that the next call reads the stored balance.
            StateError::Conflict(_) | StateError::Fenced => Self::Conflict,
            other => {
                // The write may have happened: the next call must not trust what is in memory.
                context::deactivate_on_idle();
                log::warn!("balance not stored: {other}");
                Self::Storage(other.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use granary_guest::DeactivationReason;
    use granary_guest::testing::TestContext;

    use super::contract::Account as _;
    use super::*;

    #[test]
    fn the_balance_survives_deactivation_and_death() {
        let ctx = TestContext::new();
        let alice = ctx.activate::<AccountGrain>("alice").unwrap();
        assert_eq!(alice.call(|account| account.deposit(10)), Ok(10));
        alice.deactivate(DeactivationReason::Idle);
        assert_eq!(alice.call(|account| account.withdraw(3)), Ok(7));
        alice.kill();
        assert_eq!(alice.call(AccountGrain::balance), 7);
        assert_eq!(ctx.stored::<u64>(alice.grain_ref(), "balance"), Some(7));
    }

    #[test]
    fn a_shortage_says_what_is_missing_and_changes_nothing() {
        let ctx = TestContext::new();
        let alice = ctx.activate::<AccountGrain>("alice").unwrap();
        alice.call(|account| account.deposit(10)).unwrap();
        let short = Shortage { balance: 10, needed: 11 };
        assert_eq!(alice.call(|account| account.withdraw(11)), Err(AccountError::InsufficientFunds(short)));
        assert_eq!(alice.call(AccountGrain::balance), 10);
    }

    #[test]
    fn the_balance_does_not_wrap() {
        let ctx = TestContext::new();
        let alice = ctx.activate::<AccountGrain>("alice").unwrap();
        alice.call(|account| account.deposit(u64::MAX)).unwrap();
        assert_eq!(alice.call(|account| account.deposit(1)), Err(AccountError::LimitExceeded));
    }

    #[test]
    fn a_concurrent_writer_is_a_typed_conflict_and_the_next_call_reads_again() {
        let ctx = TestContext::new();
        let alice = ctx.activate::<AccountGrain>("alice").unwrap();
        alice.call(|account| account.deposit(10)).unwrap();
        ctx.put_state(alice.grain_ref(), "balance", &50_u64);
        assert_eq!(alice.call(|account| account.deposit(1)), Err(AccountError::Conflict));
        assert_eq!(alice.call(|account| account.deposit(1)), Ok(51));
    }

    #[test]
    fn an_unreachable_store_is_said_and_memory_is_not_trusted_afterwards() {
        let ctx = TestContext::new();
        let alice = ctx.activate::<AccountGrain>("alice").unwrap();
        ctx.fail_next_write(StateError::Unavailable("down".to_owned()));
        let error = alice.call(|account| account.deposit(10)).unwrap_err();
        assert_eq!(error, AccountError::Storage("the store is unavailable: down".to_owned()));
        assert!(!alice.is_active());
        assert_eq!(alice.call(AccountGrain::balance), 0);
        assert!(ctx.logs().iter().any(|line| line.message.contains("not stored")));
    }
}

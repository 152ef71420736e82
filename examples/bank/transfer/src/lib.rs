//! The transfer grain of the bank example: takes from one account, adds to another, and says honestly what
//! happened when a part of it fails. It holds no money itself.

use granary_guest::prelude::*;

use contract::{AccountError, AccountRef, Receipt, TransferError, UnresolvedTransfer};

/// How often money that could not be deposited is put back, when a concurrent writer is in the way.
const RETURN_ATTEMPTS_MAX: usize = 5;

/// How many transfers of unknown outcome are remembered; the oldest are forgotten.
const UNRESOLVED_MAX: usize = 100;

/// A desk that makes transfers; its key says which desk.
#[grain(interface = "acme:bank/transfer", refs = ["acme:bank/account"], wit = "../wit")]
#[derive(Debug, Default)]
pub struct TransferGrain {
    unresolved: Persistent<Vec<UnresolvedTransfer>>,
}

impl contract::Transfer for TransferGrain {
    fn transfer(&mut self, source: String, target: String, amount: u64) -> Result<Receipt, TransferError> {
        if source == target {
            return Err(TransferError::SameAccount);
        }
        let moved = move_money(&source, &target, amount);
        if let Err(TransferError::UnknownOutcome(reason)) = &moved {
            self.remember(UnresolvedTransfer { source, target, amount, reason: reason.clone() });
        }
        moved
    }

    fn unresolved(&mut self) -> Vec<UnresolvedTransfer> {
        self.unresolved.clone()
    }
}

impl TransferGrain {
    fn remember(&mut self, transfer: UnresolvedTransfer) {
        log::error!(
            "transfer of {} from {} to {}: {}",
            transfer.amount,
            transfer.source,
            transfer.target,
            transfer.reason
        );
        let stored = self.unresolved.update(|unresolved| {
            unresolved.push(transfer);
            let extra = unresolved.len().saturating_sub(UNRESOLVED_MAX);
            unresolved.drain(..extra);
        });
        if let Err(error) = stored {
            log::error!("and it could not be noted down: {error}");
        }
    }
}

fn move_money(source: &str, target: &str, amount: u64) -> Result<Receipt, TransferError> {
    let (source, target) = (AccountRef::get(source)?, AccountRef::get(target)?);
    let source_balance = source.withdraw(amount).map_err(|error| match error {
        error if may_have_happened(&error) => {
            TransferError::UnknownOutcome(format!("{source} may or may not have been charged: {error}"))
        }
        GrainError::Grain(error) => TransferError::Refused(error),
        GrainError::Call(error) => TransferError::Failed(error.to_string()),
    })?;
    match target.deposit(amount) {
        Ok(target_balance) => Ok(Receipt { source_balance, target_balance }),
        Err(error) if may_have_happened(&error) => Err(TransferError::UnknownOutcome(format!(
            "{source} was charged, {target} may or may not have been credited: {error}"
        ))),
        Err(error) => Err(give_back(&source, amount, &format!("{target} was not credited: {error}"))),
    }
}

/// Puts the amount back after a deposit that certainly did not happen.
fn give_back(source: &AccountRef, amount: u64, why: &str) -> TransferError {
    for _ in 0..RETURN_ATTEMPTS_MAX {
        match source.deposit(amount) {
            Ok(_) => return TransferError::Failed(why.to_owned()),
            Err(error) if may_have_happened(&error) => {
                return TransferError::UnknownOutcome(format!(
                    "{why}; {source} was charged and may or may not have been paid back: {error}"
                ));
            }
            // Nothing happened: try again.
            Err(_) => {}
        }
    }
    TransferError::UnknownOutcome(format!("{why}; {source} was charged and could not be paid back"))
}

/// Whether a withdrawal or deposit that failed may have changed the balance nevertheless.
fn may_have_happened(error: &GrainError<AccountError>) -> bool {
    match error {
        GrainError::Grain(AccountError::Storage(_)) => true,
        error => !error.is_settled(),
    }
}

/// Before the first withdrawal nothing has happened yet, so that a failed call can be passed on by `?`.
impl From<CallError> for TransferError {
    fn from(error: CallError) -> Self {
        Self::Failed(error.to_string())
    }
}

#[cfg(test)]
mod tests;

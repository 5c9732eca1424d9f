//! The providers that an operator has: which are on, in which order, and how they are configured. Two are
//! there from the start without anybody having written them.

use std::collections::BTreeMap;

use super::offer::{Choice, ChoiceList, EditProvider, NewProvider, ProviderDoc, ProviderList, ProviderView};
use super::{Account, Payments, Provider, Sealed};
use crate::desk::{Document, status};
use crate::text::{code, title};
use crate::{Actor, Desk, Done, Family, Permission, Person, Refusal, Result, Time, put};
use serde_json::{Map, Value, json};
use tenure_core::{Expect, ItemId, Verb};

/// Providers, by their code.
const PROVIDERS: Family = Family("provider-");

/// Cards, by the bank's hosted page.
pub const BAC_CREDOMATIC: &str = "bac_credomatic";
/// Transfers from phone to phone.
pub const SINPE_MOVIL: &str = "sinpe_movil";

/// A name on a button.
const NAME_BYTES_MAX: usize = 100;
/// A sentence under it.
const DESCRIPTION_BYTES_MAX: usize = 500;
/// One field of a configuration: a gateway's key is the longest.
const FIELD_BYTES_MAX: usize = 1_000;
/// The last place in the order; nobody has so many providers.
const PRIORITY_MAX: u32 = 1_000;
/// Providers: a buyer chooses among a handful.
const PROVIDERS_MAX: usize = 50;
/// What stands for a secret that is set. Written back, it leaves the secret as it is.
const MASK: &str = "********";

/// A provider with what does the work.
#[derive(Clone, Debug)]
pub(super) struct Configured {
    pub(super) code: String,
    pub(super) data: ProviderDoc,
    pub(super) connector: std::sync::Arc<dyn Provider>,
    version: u64,
    updated_at_ms: i64,
}

fn builtin(code: &str) -> Option<ProviderDoc> {
    let (name, description, is_enabled, is_automatic, priority, config) = match code {
        BAC_CREDOMATIC => {
            let words = "Tarjeta de crédito o débito, en la página segura del banco";
            ("BAC Credomatic", words, false, true, 1, json!({"environment": "sandbox"}))
        }
        SINPE_MOVIL => {
            let words = "Transferencia desde su teléfono; una persona la revisa";
            ("SINPE Móvil", words, true, false, 2, json!({}))
        }
        _ => return None,
    };
    let config = config.as_object().cloned().unwrap_or_default();
    let (name, description) = (name.to_owned(), description.to_owned());
    Some(ProviderDoc {
        name,
        description,
        is_enabled,
        is_automatic,
        priority,
        config,
        secrets: BTreeMap::new(),
        updated_by: None,
    })
}

impl Payments {
    /// Every provider, for its operator.
    pub async fn providers(&self, actor: &Actor) -> Result<ProviderList> {
        actor.require(Permission::PaymentsManage)?;
        let all = self.all_providers().await?;
        let providers = all.iter().map(|provider| self.provider_view(provider)).collect();
        Ok(ProviderList { providers, server_time: Time(self.desk.now_ms()) })
    }

    /// What a buyer can choose: what is on and works.
    pub async fn choices(&self) -> Result<ChoiceList> {
        let all = self.all_providers().await?;
        let good =
            all.iter().filter(|provider| provider.data.is_enabled && self.missing(provider).is_empty());
        let providers = good.map(|provider| Choice {
            code: provider.code.clone(),
            name: provider.data.name.clone(),
            description: provider.data.description.clone(),
            mode: provider.connector.capabilities().mode,
            is_automatic: provider.data.is_automatic,
        });
        Ok(ChoiceList { providers: providers.collect() })
    }

    /// Adds one.
    pub async fn add_provider(&self, actor: &Actor, new: NewProvider) -> Result<Done<ProviderView>> {
        actor.require(Permission::PaymentsManage)?;
        let code = code("code", &new.code)?.to_owned();
        if builtin(&code).is_some() {
            return Err(taken());
        }
        let connector = self.connector(&code, new.is_automatic)?;
        let mut data = ProviderDoc {
            name: title("name", &new.name, NAME_BYTES_MAX)?,
            description: description(&new.description)?,
            is_enabled: new.is_enabled,
            is_automatic: new.is_automatic,
            priority: priority(new.priority)?,
            config: Map::new(),
            secrets: BTreeMap::new(),
            updated_by: Some(Person::from(&actor.principal)),
        };
        let secrets = merge(&mut data, &*connector, &new.config)?;
        whole_if_enabled(&data, &secrets, &*connector)?;
        if self.all_providers().await?.len() >= PROVIDERS_MAX {
            return Err(Refusal::invalid("code", format!("there are at most {PROVIDERS_MAX} providers")));
        }
        self.keep_secrets(&code, &mut data, secrets)?;
        let id = PROVIDERS.id(&code)?;
        let verb = Verb::Group(vec![
            Verb::CreateCollection,
            put(&id, &status("kept"), &data, Expect::Absent, None)?,
        ]);
        let made = self.desk.change_once(actor, &self.collection, Desk::OWN_STEP, || Ok(verb.clone())).await;
        let made = made.map_err(|refusal| {
            // Nothing names them.
            self.drop_secrets(&code, data.secrets.into_values());
            match refusal.code() {
                "conflict" => taken(),
                _ => refusal,
            }
        })?;
        tell_change(actor, &code, &new.config);
        let view = self.provider_view(&self.provider(&code)?);
        Ok(made.show(view))
    }

    /// Changes one.
    pub async fn edit_provider(
        &self,
        actor: &Actor,
        code: &str,
        edit: &EditProvider,
    ) -> Result<Done<ProviderView>> {
        actor.require(Permission::PaymentsManage)?;
        // Names of secrets that a plan found or made: in the end those count that the document names.
        let names = parking_lot::Mutex::new(Vec::new());
        let plan = || {
            let found = self.provider(code)?;
            let mut data = found.data.clone();
            names.lock().extend(data.secrets.values().cloned());
            data.updated_by = Some(Person::from(&actor.principal));
            data.is_enabled = edit.is_enabled.unwrap_or(data.is_enabled);
            if let Some(wanted) = edit.priority {
                data.priority = priority(wanted)?;
            }
            if let Some(name) = &edit.name {
                data.name = title("name", name, NAME_BYTES_MAX)?;
            }
            if let Some(words) = &edit.description {
                data.description = description(words)?;
            }
            let empty = Map::new();
            let secrets = merge(&mut data, &*found.connector, edit.config.as_ref().unwrap_or(&empty))?;
            // A switch that was on without being set up (it is delivered so) may stay on.
            if edit.is_enabled == Some(true)
                || edit.config.is_some() && found.data.is_enabled && found.version > 0
            {
                whole_if_enabled(&data, &secrets, &*found.connector)?;
            }
            self.keep_secrets(code, &mut data, secrets)?;
            names.lock().extend(data.secrets.values().cloned());
            let expect = if found.version == 0 { Expect::Absent } else { Expect::Version(found.version) };
            let write = put(&PROVIDERS.id(code)?, &status("kept"), &data, expect, None)?;
            Ok(Verb::Group(vec![Verb::CreateCollection, write]))
        };
        let done = self.desk.change(actor, &self.collection, Desk::OWN_STEP, plan).await;
        let after = self.provider(code)?;
        let is_named = |name: &String| after.data.secrets.values().any(|named| named == name);
        self.drop_secrets(code, names.into_inner().into_iter().filter(|name| !is_named(name)));
        let done = done?;
        tell_change(actor, code, edit.config.as_ref().unwrap_or(&Map::new()));
        let view = self.provider_view(&after);
        Ok(done.show(view))
    }

    /// One provider, as it is.
    pub(super) fn provider(&self, code: &str) -> Result<Configured> {
        let unknown = || Refusal::not_found("provider", code);
        let id = PROVIDERS.id(code).map_err(|_| unknown())?;
        if let Some(document) = self.desk.find::<ProviderDoc>(&self.collection, &id)? {
            return self.configured(document);
        }
        let data = builtin(code).ok_or_else(unknown)?;
        let connector = self.connector(code, data.is_automatic)?;
        Ok(Configured { code: code.to_owned(), data, connector, version: 0, updated_at_ms: 0 })
    }

    /// What the connector needs, secrets included.
    pub(super) fn account(&self, provider: &Configured) -> Result<Account> {
        let mut secrets = BTreeMap::new();
        for (field, name) in &provider.data.secrets {
            if let Some(secret) = self.secret_of(name)? {
                secrets.insert(field.clone(), secret);
            }
        }
        Ok(Account { config: provider.data.config.clone(), secrets })
    }

    /// Fields without which nobody can pay.
    pub(super) fn missing(&self, provider: &Configured) -> Vec<String> {
        let needed = provider.connector.fields().iter().filter(|field| field.is_needed);
        let missing = needed.filter(|field| {
            if field.is_secret {
                // After a restore the folder of secrets may be another one.
                let name = provider.data.secrets.get(field.name);
                !name.is_some_and(|name| matches!(self.till.vault.get(name), Ok(Some(_))))
            } else {
                !provider.data.config.contains_key(field.name)
            }
        });
        let mut missing: Vec<String> = missing.map(|field| field.name.to_owned()).collect();
        // What was fine when it was written may not be with the gateway that this server was started with.
        if let Err(Refusal::Invalid { field, .. }) = provider.connector.validate_config(&provider.data.config)
        {
            missing.push(field.trim_start_matches("config.").to_owned());
        }
        missing
    }

    async fn all_providers(&self) -> Result<Vec<Configured>> {
        let payments = self.clone();
        self.desk
            .read(move |desk| {
                let keep = |item| payments.configured(Document::of(item)?).map(Some);
                let which = (None, None, PROVIDERS_MAX);
                let mut all = PROVIDERS.page(desk, &payments.collection, which, keep)?.rows;
                for code in [BAC_CREDOMATIC, SINPE_MOVIL] {
                    if all.iter().all(|provider| provider.code != code) {
                        all.push(payments.provider(code)?);
                    }
                }
                all.sort_by(|a, b| (a.data.priority, &a.code).cmp(&(b.data.priority, &b.code)));
                Ok(all)
            })
            .await
    }

    fn configured(&self, Document { item, data }: Document<ProviderDoc>) -> Result<Configured> {
        let code = code_of(&item.id).to_owned();
        let connector = self.connector(&code, data.is_automatic)?;
        Ok(Configured { code, data, connector, version: item.version, updated_at_ms: item.updated_at_ms })
    }

    /// What does the work: a gateway by its own name, or a person.
    fn connector(&self, code: &str, is_automatic: bool) -> Result<std::sync::Arc<dyn Provider>> {
        if !is_automatic {
            return Ok(self.till.manual.clone());
        }
        self.till.connectors.get(code).cloned().ok_or_else(|| {
            let known: Vec<_> = self.till.connectors.keys().copied().collect();
            Refusal::invalid("code", format!("an automatic provider is one of {}", known.join(", ")))
        })
    }

    /// Puts secrets away under fresh names: until the document names them, the old ones count.
    fn keep_secrets(
        &self,
        code: &str,
        data: &mut ProviderDoc,
        secrets: BTreeMap<String, Sealed>,
    ) -> Result<()> {
        for (field, secret) in secrets {
            let name = self.desk.fresh_id(&format!("provider.{code}.{field}."));
            self.keep_secret(&name, &secret)?;
            data.secrets.insert(field, name);
        }
        Ok(())
    }

    /// Deletes secrets that no document names.
    fn drop_secrets(&self, code: &str, names: impl IntoIterator<Item = String>) {
        for name in names {
            if let Err(error) = self.till.vault.remove(&name) {
                tracing::warn!(provider = code, %error, "an old secret could not be deleted");
            }
        }
    }

    fn provider_view(&self, provider: &Configured) -> ProviderView {
        let mut config = provider.data.config.clone();
        for field in provider.data.secrets.keys() {
            config.insert(field.clone(), Value::from(MASK));
        }
        ProviderView {
            id: provider.code.clone(),
            code: provider.code.clone(),
            name: provider.data.name.clone(),
            description: provider.data.description.clone(),
            is_enabled: provider.data.is_enabled,
            is_automatic: provider.data.is_automatic,
            priority: provider.data.priority,
            config,
            missing: self.missing(provider),
            version: provider.version,
            updated_at: (provider.version > 0).then_some(Time(provider.updated_at_ms)),
            updated_by: provider.data.updated_by.clone(),
        }
    }
}

/// Who changed where money goes is in the log: names of fields only, since some are secrets.
fn tell_change(actor: &Actor, code: &str, config: &Map<String, Value>) {
    let fields: Vec<&str> = config.keys().map(String::as_str).collect();
    tracing::info!(actor = &*actor.principal.id, provider = code, ?fields, "a payment provider was changed");
}

fn code_of(id: &ItemId) -> &str {
    &id.as_str()[PROVIDERS.0.len()..]
}

fn taken() -> Refusal {
    Refusal::invalid("code", "is taken")
}

fn priority(priority: u32) -> Result<u32> {
    if priority <= PRIORITY_MAX {
        Ok(priority)
    } else {
        Err(Refusal::invalid("priority", format!("must be 0 to {PRIORITY_MAX}")))
    }
}

fn description(words: &str) -> Result<String> {
    if words.trim().is_empty() {
        return Ok(String::new());
    }
    title("description", words, DESCRIPTION_BYTES_MAX)
}

/// Puts what was sent over what is there; gives the secrets that are new.
fn merge(
    data: &mut ProviderDoc,
    connector: &dyn Provider,
    sent: &Map<String, Value>,
) -> Result<BTreeMap<String, Sealed>> {
    let mut secrets = BTreeMap::new();
    for (name, value) in sent {
        let at = format!("config.{name}");
        let Some(field) = connector.fields().iter().find(|field| field.name == name) else {
            let known: Vec<_> = connector.fields().iter().map(|field| field.name).collect();
            return Err(Refusal::invalid(at, format!("is none of its fields: {}", known.join(", "))));
        };
        match value {
            Value::Null => {
                data.config.remove(name);
                data.secrets.remove(name);
            }
            Value::String(text) if field.is_secret && text == MASK => {}
            Value::String(text) if text.trim().is_empty() => {
                return Err(Refusal::invalid(at, "must not be empty; null takes it away"));
            }
            Value::String(text) if text.len() > FIELD_BYTES_MAX || text.chars().any(char::is_control) => {
                let message = format!("has at most {FIELD_BYTES_MAX} bytes and no control characters");
                return Err(Refusal::invalid(at, message));
            }
            Value::String(text) if field.is_secret => {
                secrets.insert(name.clone(), Sealed::new(text.trim()));
            }
            Value::String(text) => {
                data.config.insert(name.clone(), Value::from(text.trim()));
            }
            Value::Bool(_) if !field.is_secret => {
                data.config.insert(name.clone(), value.clone());
            }
            _ => return Err(Refusal::invalid(at, "must be a text")),
        }
    }
    connector.validate_config(&data.config)?;
    Ok(secrets)
}

/// Refuses to switch on what could not work.
fn whole_if_enabled(
    data: &ProviderDoc,
    secrets: &BTreeMap<String, Sealed>,
    connector: &dyn Provider,
) -> Result<()> {
    let has = |name: &str| {
        data.config.contains_key(name) || data.secrets.contains_key(name) || secrets.contains_key(name)
    };
    let needed = connector.fields().iter().filter(|field| field.is_needed);
    match needed.map(|field| field.name).find(|name| data.is_enabled && !has(name)) {
        Some(name) => Err(Refusal::invalid(format!("config.{name}"), "is missing: nobody could pay")),
        None => Ok(()),
    }
}

# Least privilege for bao-kms-provider: it can neither create, rotate,
# configure nor delete a key. Login needs no policy.

# Metadata of the key: its versions and profile.
path "transit-kms/keys/workload-a" {
  capabilities = ["read"]
}

# Proof that disable_upsert is set, so that a wrong name never makes a key.
path "transit-kms/config/keys" {
  capabilities = ["read"]
}

# Wrap the API server's seeds.
path "transit-kms/encrypt/workload-a" {
  capabilities = ["update"]
}

# Unwrap them.
path "transit-kms/decrypt/workload-a" {
  capabilities = ["update"]
}

# Let doctor compare this policy with what the token may do.
path "sys/capabilities-self" {
  capabilities = ["update"]
}

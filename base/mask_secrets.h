// An environment that may be shown: `muster env` prints variables, and people paste what it prints.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"

namespace muster {

inline constexpr char kMask[] = "********";  // of one length: the length of a secret is nobody's business

// Whether a variable of this name is likely to hold a secret: HF_TOKEN, WANDB_API_KEY, DB_PASSWORD, but not
// TOKENIZERS_PARALLELISM or PWD.
bool IsSecretName(std::string_view name);

// Values of variables named like secrets become kMask, and so does the user part of URLs (https://user:pw@host).
// Empty values stay, as "set but empty" is what one looks for.
Environment MaskSecrets(const Environment& environment);

// A text of any kind: what follows a name like a secret's ("Authorization: ...", "hf_token=..."), the user part of
// addresses and what begins as well-known tokens do (ghp_..., hf_...) become kMask. Rather too much than too
// little.
std::string MaskText(std::string_view text);

// The arguments of a command, each as by MaskText, and those that follow a name like a secret's (--api-key VALUE).
// Nobody knows what the one of `-pVALUE` is.
std::vector<std::string> MaskArguments(const std::vector<std::string>& arguments);

}  // namespace muster

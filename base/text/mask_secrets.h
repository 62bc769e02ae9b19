// Masks secrets in environments and command lines: `muster env` prints them, and people share its output.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"

namespace muster {

inline constexpr char kMask[] = "********";  // of fixed length, so that it does not reveal the secret's length

// Whether a variable of this name is likely to hold a secret: HF_TOKEN, WANDB_API_KEY, DB_PASSWORD, but not
// TOKENIZERS_PARALLELISM or PWD.
bool IsSecretName(std::string_view name);

// Masks any text: the user part of addresses (https://user:pw@host), what follows a name like a secret's
// ("Authorization: ...", "hf_token=..."), and words with the prefix of a well-known token (ghp_..., hf_...). Masks
// too much rather than too little.
std::string MaskText(std::string_view text);

// The value of a variable or setting: kMask if the name is like a secret's, else MaskText(value). The absolute
// path of a secret of muster's own is shown, and empty values stay: "set but empty" is useful to know.
std::string MaskValue(std::string_view name, std::string_view value);

// Masks each variable's value by MaskValue.
Environment MaskSecrets(const Environment& environment);

// Masks the arguments of a command: each by MaskText, and the values that follow a name like a secret's (--api-key
// VALUE). A secret in the form `-pVALUE` cannot be recognized.
std::vector<std::string> MaskArguments(const std::vector<std::string>& arguments);

}  // namespace muster

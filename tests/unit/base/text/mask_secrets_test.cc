#include "base/text/mask_secrets.h"

#include <rapidcheck.h>

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::discovery {
namespace {

TEST(MaskSecrets, NamesLikeSecretsAreFound) {
  for (const char* name : {"HF_TOKEN",
                           "HUGGING_FACE_HUB_TOKEN",
                           "WANDB_API_KEY",
                           "AWS_SECRET_ACCESS_KEY",
                           "AWS_ACCESS_KEY_ID",
                           "AWS_SESSION_TOKEN",
                           "DB_PASSWORD",
                           "MYSQLPASSWORD",
                           "GITHUBTOKEN",
                           "MUSTER_TOKEN",
                           "pgpassword",
                           "DB_PWD",
                           "GOOGLE_APPLICATION_CREDENTIALS",
                           "SSH_AUTH_SOCK",
                           "SENTRY_DSN",
                           "OPENAI_APIKEY",
                           "GITLAB_PAT",
                           "app-secret",
                           "Spring.Password",
                           "HF_TOKENS"}) {
    EXPECT_TRUE(IsSecretName(name)) << name;
  }
}

TEST(MaskSecrets, OrdinaryNamesAreLeftAlone) {
  for (const char* name :
       {"TOKENIZERS_PARALLELISM", "PATH", "PWD", "OLDPWD", "KEYBOARD", "PYTHONPATH", "RANK", "CLUSTER_SPEC",
        "MASTER_ADDR", "COMPASS", "AUTHOR", "MONKEYTYPE", "LD_LIBRARY_PATH", ""}) {
    EXPECT_FALSE(IsSecretName(name)) << name;
  }
}

TEST(MaskSecrets, MasksHaveOneLengthAndEmptyValuesStay) {
  const Environment masked = MaskSecrets({{"HF_TOKEN", "x"}, {"A_KEY", "longer"}, {"B_KEY", ""}, {"RANK", "3"}});
  EXPECT_EQ(masked, (Environment{{"HF_TOKEN", kMask}, {"A_KEY", kMask}, {"B_KEY", ""}, {"RANK", "3"}}));
}

TEST(MaskSecrets, ThePathOfASecretOfOurOwnIsShown) {
  const Environment shown = {{"MUSTER_TOKEN_FILE", "/run/llm-token/token"},
                             {"MUSTER_TLS_KEY", "/run/tls/node.key"}};
  EXPECT_EQ(MaskSecrets(shown), shown);
  EXPECT_EQ(MaskValue("MUSTER_TOKEN_FILE", "hunter2"), kMask) << "a mistake of the one who set it";
  EXPECT_EQ(MaskValue("WEBHOOK_SECRET_PATH", "/services/T0/B0"), kMask) << "the secret itself";
}

TEST(MaskSecrets, UserPartsOfUrlsAreMasked) {
  const Environment masked = MaskSecrets({{"A", "http://me:pw@proxy:3128/x@y"},
                                          {"B", "a://u@h b://p:q@r@h2 c://plain/@"},
                                          {"C", "see ://"},
                                          {"D", "gs://bucket/dir"}});
  EXPECT_EQ(masked.at("A"), "http://********@proxy:3128/x@y");
  EXPECT_EQ(masked.at("B"), "a://********@h b://********@h2 c://plain/@");
  EXPECT_EQ(masked.at("C"), "see ://");
  EXPECT_EQ(masked.at("D"), "gs://bucket/dir");
}

using Words = std::vector<std::string>;

TEST(MaskSecrets, SecretsInCommandArgumentsAreMasked) {
  const std::string token = "ghp_" + std::string(36, 'a') + "S3CRET";
  for (const Words& arguments : std::vector<Words>{{"--header", "Authorization: Bearer S3CRET"},
                                                   {"--header=Authorization: Bearer S3CRET"},
                                                   {"-H", "Authorization:", "Bearer", "S3CRET"},
                                                   {"-H", "Cookie: a=b; id=S3CRET"},
                                                   {"--api-key", "-S3CRET"},
                                                   {"--api-key", "--S3CRET"},
                                                   {"--use-auth", "--password", "S3CRET"},
                                                   {"--set=model.hf_token=S3CRET"},
                                                   {"--set", "model.hf_token=S3CRET"},
                                                   {"+wandb.api_key=S3CRET"},
                                                   {"--url=https://x/?token=S3CRET"},
                                                   {"https://x/y?a=1&sig=S3CRET"},
                                                   {"https://user:S3CRET@host"},
                                                   {"--url=https://user:S3CRET@host/x"},
                                                   {"user:S3CRET@host:22"},
                                                   {"{\"password\": \"S3CRET\"}"},
                                                   {"{'max_tokens': 5, 'apiKey': 'S3CRET'}"},
                                                   {"HF_TOKEN:S3CRET"},
                                                   {"--wandb-key:S3CRET"},
                                                   {"--auth S3CRET"},
                                                   {"--env", "HF_TOKEN=S3CRET"},
                                                   {"config", "set", "hf_token", "S3CRET"},
                                                   {"export API_KEY=S3CRET; python x"},
                                                   {"python x --max-tokens 5 --hf-token S3CRET"},
                                                   {token},
                                                   {"--x=" + token},
                                                   {"hf_S3CRETabcdefghijklmnop"},
                                                   {"sk-proj-abcdefghijkl-S3CRET"}}) {
    std::string shown;
    for (const std::string& word : MaskArguments(arguments)) shown += word + " ";
    EXPECT_THAT(shown, testing::Not(testing::HasSubstr("S3CRET"))) << arguments.front();
    EXPECT_THAT(shown, testing::HasSubstr(kMask)) << arguments.front();
  }
}

TEST(MaskSecrets, OtherCommandArgumentsAreShown) {
  const Words arguments = {"--lr",
                           "1e-4",
                           "--max-tokens",
                           "4096",
                           "--tokenizer",
                           "gpt2",
                           "--data",
                           "/data/tokens/shard.bin",
                           "--data",
                           "/data/tokens",
                           "--backend",
                           "hf_transformers_with_flash",
                           "--max_tokens=4096",
                           "user@host",
                           "gs://bucket/x@y",
                           "data.tokens_per_batch=1",
                           "plain"};
  Words expected = arguments;
  expected[15] = "data.tokens_per_batch=********";  // masks too much rather than too little
  EXPECT_EQ(MaskArguments(arguments), expected);
  EXPECT_EQ(MaskArguments({"--api-key", "x", "--lr", "1"}), (Words{"--api-key", kMask, "--lr", "1"}));
  EXPECT_EQ(MaskArguments({"--header=Authorization: Bearer x"}), Words{"--header=Authorization: ********"});
  EXPECT_EQ(MaskArguments({"--password", ""}), (Words{"--password", ""})) << "set but empty is worth seeing";
  EXPECT_EQ(MaskArguments({"", "--api-key"}), (Words{"", "--api-key"}));
}

// Texts around "user:password@": what is shown before and after it.
struct Around {
  std::string before;
  std::string after;
};

std::vector<Around> Arounds() {
  return {{"true --db postgres://", "@h/db A"}, {"http://", "@proxy:3128"}, {"", "@h"},
          {"--url=https://", "@h:443/x@y"},     {"x --on ", "@h:22 B"},     {"amqp://u@h0 amqp://", "@h,h2 C"}};
}

void ExpectPasswordMasked(const std::string& user, const std::string& password) {
  for (const Around& around : Arounds()) {
    std::string text = around.before;
    text.append(user).append(":").append(password).append(around.after);
    std::string expected = around.before == "amqp://u@h0 amqp://" ? "amqp://********@h0 amqp://" : around.before;
    expected.append(kMask).append(around.after);
    EXPECT_EQ(MaskText(text), expected) << text;
  }
}

TEST(MaskSecrets, APasswordThatIsAKeyWordHidesOnlyItself) {
  for (const char* password :
       {"secret", "my-pass", "password123", "api_key=1", "token", "x-token-y", "Bearer", "auth:auth", "key;pw,sig",
        "secret/key", "pass?word#1", "to@ken", "pass@@word", "hf_token", "AKIA", "DB_PASSWORD=x", "&key=&"}) {
    for (const char* user : {"u", "admin", "", "key", "secret-reader"}) ExpectPasswordMasked(user, password);
  }
}

TEST(MaskSecrets, NoPasswordOfAnAddressIsShown) {
  EXPECT_TRUE(rc::check([] {
    const auto words = *rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
        "secret", "password", "key", "TOKEN", "auth", "sk-", "-", "_", "=", ":", ".", "?", "#", ",", ";", "&",
        "%40", "7", "x"));  // "://" would begin another address
    std::string password = "p";
    for (const std::string& word : words) password += word;
    for (const Around& around : Arounds()) {
      RC_ASSERT(MaskText(around.before + "u:" + password + around.after).ends_with(kMask + around.after));
    }
  }));
}

TEST(MaskSecrets, PortsAndPathsOfAddressesAreShown) {
  for (const char* text :
       {"http://h:80/path@y", "gs://bucket/x@y", "user@host:/path", "h1:22,user@h2", "http://[::1]:80",
        "c10d://h:29400?a=b@c", "git@github.com:a/b", "@", "a@b@c", "://@/"}) {
    const std::string shown = MaskText(text);
    EXPECT_EQ(shown, std::string_view(text) == "://@/" ? "://********@/" : text);
  }
}

TEST(MaskSecrets, AnAddressBeforeAnArgumentDoesNotHideIt) {
  EXPECT_EQ(MaskArguments({"--db", "postgres://u:secret@h", "A"}), (Words{"--db", "postgres://********@h", "A"}));
  EXPECT_EQ(MaskArguments({"redis://:my-pass@", "A"}), (Words{"redis://********@", "A"}));
}

TEST(MaskSecrets, ValuesOfOrdinaryVariablesAreMaskedAsText) {
  const Environment masked =
      MaskSecrets({{"NCCL_A", "sk-abcdefghijkl-S3CRET0"},
                   {"NCCL_B", "u:hunter2@h"},
                   {"NCCL_C", "Bearer hunter2"},
                   {"MUSTER_PREFLIGHT", "curl -H \"Authorization: Bearer hunter2\" http://h"},
                   {"NCCL_DEBUG", "INFO"}});
  EXPECT_EQ(masked, (Environment{{"NCCL_A", kMask},
                                 {"NCCL_B", "********@h"},
                                 {"NCCL_C", "Bearer ********"},
                                 {"MUSTER_PREFLIGHT", "curl -H \"Authorization: ********"},
                                 {"NCCL_DEBUG", "INFO"}}));
}

}  // namespace
}  // namespace muster::discovery

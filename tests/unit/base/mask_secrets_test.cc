#include "base/mask_secrets.h"

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

}  // namespace
}  // namespace muster::discovery

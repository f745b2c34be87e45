// The order in which a member works on the parts of a large encoded allreduce.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "comm/encoded_allreduce.h"

namespace hvdlite::comm {
namespace {

// As the first of two members sees it: the other one sends the same. Exchanges end as far as they
// are allowed to.
class Echo final : public Communicator {
 public:
  const char* name() const override { return "echo"; }
  std::string Explain(const Batch&) const override { return ""; }
  void AddPollFds(std::vector<pollfd>*) const override {}
  std::unique_ptr<Work> Start(const Batch& batch) override {
    EXPECT_EQ(batch.kind, OpKind::kAlltoall);
    return std::make_unique<Exchange>(this, batch.pieces[0]);
  }
  int allowed = 0;

 private:
  class Exchange final : public Work {
   public:
    Exchange(Echo* echo, const Piece& piece) : echo_(*echo), piece_(piece) {}
    Progress Advance() override {
      if (echo_.allowed == 0) return Progress::kNone;
      --echo_.allowed;
      std::memcpy(piece_.output, piece_.input, static_cast<size_t>(piece_.counts[1]));
      return Progress::kDone;
    }

   private:
    Echo& echo_;
    const Piece& piece_;
  };
};

TEST(EncodedParts, OneIsFinishedWhileTheBytesOfTheNextAreUnderWay) {
  constexpr size_t kCount = 2 << 20;  // a part of its own
  struct Tensor {
    std::vector<float> input = std::vector<float>(kCount, 0.3F);
    std::vector<float> output = std::vector<float>(kCount, 77);
    std::vector<float> residual = std::vector<float>(kCount, 0.1F);
    bool IsFinished() const {
      return std::none_of(output.begin(), output.end(), [](float x) { return x == 77; });
    }
    bool IsUntouched() const {
      return std::all_of(output.begin(), output.end(), [](float x) { return x == 77; }) &&
             std::all_of(residual.begin(), residual.end(), [](float x) { return x == 0.1F; });
    }
  };
  std::vector<Tensor> tensors(2);
  Batch batch;
  batch.kind = OpKind::kAllreduce;
  batch.dtype = batch.reduce.dtype = DType::kFloat32;
  batch.codec = {Codec::kInt8, 0};
  for (Tensor& tensor : tensors) {
    Piece piece;
    piece.input = tensor.input.data();
    piece.output = tensor.output.data();
    piece.count = kCount;
    piece.coding.residual = tensor.residual.data();
    batch.pieces.push_back(piece);
  }
  Echo echo;
  EncodedScratch scratch;
  const std::unique_ptr<Work> work = EncodedAllreduce(&echo, &scratch, nullptr, batch, 0, 2);
  const auto advance = [&work] {
    Progress progress = Progress::kSome;
    while (progress == Progress::kSome) progress = work->Advance();
    return progress;
  };
  EXPECT_EQ(advance(), Progress::kNone);
  EXPECT_TRUE(tensors[0].IsUntouched());
  echo.allowed = 1;
  EXPECT_EQ(advance(), Progress::kNone);
  EXPECT_TRUE(tensors[0].IsFinished());
  EXPECT_TRUE(tensors[1].IsUntouched());
  echo.allowed = 1;
  EXPECT_EQ(advance(), Progress::kDone);
  EXPECT_TRUE(tensors[1].IsFinished());
  EXPECT_EQ(tensors[0].output, tensors[1].output);
  EXPECT_EQ(tensors[0].residual, tensors[1].residual);
}

}  // namespace
}  // namespace hvdlite::comm

// The order in which a member works on the parts of a large encoded allreduce.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "comm/compressed/encoded_allreduce.h"

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
  bool slow() const override { return is_slow; }
  int allowed = 0;
  int polls = 0;
  bool is_slow = false;

 private:
  class Exchange final : public Work {
   public:
    Exchange(Echo* echo, const Piece& piece) : echo_(*echo), piece_(piece) {}
    Progress Advance() override {
      ++echo_.polls;
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

class EncodedParts : public ::testing::Test {
 protected:
  static constexpr size_t kCount = 2 << 20;  // a part of its own
  struct Tensor {
    std::vector<float> input = std::vector<float>(kCount, 0.3F);
    std::vector<float> output = std::vector<float>(kCount, 77);
    std::vector<float> residual = std::vector<float>(kCount, 0.1F);
    bool IsFinished() const {
      return std::none_of(output.begin(), output.end(), [](float x) { return x == 77; });
    }
    bool IsUntouched() const {
      return std::all_of(output.begin(), output.end(), [](float x) { return x == 77; });
    }
  };

  EncodedParts() {
    batch_.kind = OpKind::kAllreduce;
    batch_.dtype = batch_.reduce.dtype = DType::kFloat32;
    batch_.codec = {Codec::kInt8, 0};
    for (Tensor& tensor : tensors_) {
      Piece piece;
      piece.input = tensor.input.data();
      piece.output = tensor.output.data();
      piece.count = kCount;
      piece.coding.residual = tensor.residual.data();
      batch_.pieces.push_back(piece);
    }
    work_ = compressed::StartEncoded(&echo_, batch_, 0, 2);
  }
  // As far as it goes without more bytes.
  Progress Advance() {
    Progress progress = Progress::kSome;
    while (progress == Progress::kSome) progress = work_->Advance();
    return progress;
  }

  std::vector<Tensor> tensors_ = std::vector<Tensor>(2);
  Batch batch_;
  Echo echo_;
  std::unique_ptr<Work> work_;
};

TEST_F(EncodedParts, OneIsFinishedWhileTheBytesOfTheNextAreUnderWay) {
  EXPECT_EQ(Advance(), Progress::kNone);
  EXPECT_TRUE(tensors_[0].IsUntouched());
  echo_.allowed = 1;
  EXPECT_EQ(Advance(), Progress::kNone);
  EXPECT_TRUE(tensors_[0].IsFinished());
  EXPECT_TRUE(tensors_[1].IsUntouched());
  echo_.allowed = 1;
  EXPECT_EQ(Advance(), Progress::kDone);
  EXPECT_TRUE(tensors_[1].IsFinished());
  EXPECT_EQ(tensors_[0].output, tensors_[1].output);
  EXPECT_EQ(tensors_[0].residual, tensors_[1].residual);
}

// A poll that finds nothing costs two system calls, and on a slow link most find nothing.
TEST_F(EncodedParts, ASlowExchangeIsPolledLessOften) {
  EXPECT_EQ(Advance(), Progress::kNone);
  const int quick = echo_.polls;  // while the second tensor was encoded
  echo_.is_slow = true;
  echo_.allowed = 1;
  echo_.polls = 0;
  EXPECT_EQ(Advance(), Progress::kNone);
  const int slow = echo_.polls;  // while the first one was finished
  EXPECT_GE(quick, 128);
  EXPECT_GE(slow, 32);
  EXPECT_LE(slow, 128 / 4 + 8);
}

}  // namespace
}  // namespace hvdlite::comm

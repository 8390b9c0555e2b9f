package upstream

import (
	"net/http"
	"time"

	"myip.co.kr/hearth/internal/dialect"
)

// readAnswer reads a whole non-stream body. A complete body without an answer in it lets the walk go on; a body that
// breaks off does not.
func (op *opening) readAnswer(resp *http.Response) (*Opened, *Failure) {
	defer resp.Body.Close()
	o := &Opened{Status: resp.StatusCode, share: share{of: &op.client.answers}}
	b, err := readAll(resp.Body, resp.ContentLength, op.client.largest, &o.share)
	if err != nil {
		o.Free()
		f := judgeRead(err, cause(op.w.ctx), "the answer was cut off")
		f.Status = resp.StatusCode
		if f.Overloaded || !f.TimedOut && garbled(err) {
			return nil, &f
		}
		o.Cut = &f
		return o, nil
	}
	if o.Answer, err = op.call.Stamp.ReadAnswer(b); err != nil {
		o.Free()
		return nil, noJSON(resp.StatusCode, err)
	}
	if f := op.judgeAnswer(o.Answer, b, resp.StatusCode); f != nil {
		o.Free()
		return nil, f
	}
	return o, nil
}

// judgeAnswer says what is wrong with a complete body that holds no answer.
func (op *opening) judgeAnswer(answer *dialect.Answer, b []byte, status int) *Failure {
	switch {
	case answer.Err != nil && (answer.Choices == 0 || answer.Finish == "" || answer.Finish == "error"):
		return op.inBand(answer.Err)
	case answer.Choices == 0 && saysError(b):
		return op.inBand(dialect.ReadError(http.StatusBadGateway, b))
	case answer.Choices == 0 || !answer.Content && answer.Finish == "":
		return failure(status, noAnswer)
	}
	return nil
}

const noAnswer = "provider answered without an answer"

func noJSON(status int, err error) *Failure {
	f := failure(status, "provider answered without a JSON answer")
	f.Err = err
	return f
}

func (op *opening) inBand(e *dialect.UpstreamError) *Failure {
	f := judgeInBand(e, op.call.Endpoint.Local(), time.Now())
	return &f
}

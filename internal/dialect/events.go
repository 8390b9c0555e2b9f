package dialect

import "myip.co.kr/hearth/internal/sse"

// AppendLastEvents appends the chunk as an event and the [DONE] that ends every stream of ours.
func AppendLastEvents(dst, chunk []byte) []byte {
	return sse.AppendData(sse.AppendData(dst, chunk), []byte("[DONE]"))
}

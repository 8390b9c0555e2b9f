module myip.co.kr/hearth/bench

go 1.26.0

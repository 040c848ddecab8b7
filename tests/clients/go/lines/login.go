package lines

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// Login is one identity at one listener, by one mechanism (see logins/login.py).
type Login struct {
	Mechanism string `json:"mechanism"`
	Address   string `json:"address"`
	Authority string `json:"authority"`
	Name      string `json:"name"`
	Password  string `json:"password"`
	Token     string `json:"token"`
	Chain     string `json:"chain"`
	Key       string `json:"key"`
}

// begin of settings

// TLS trusts the broker's authority, and shows a certificate where that is the mechanism.
func (login Login) TLS() (*tls.Config, error) {
	authority, err := os.ReadFile(login.Authority)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s holds no certificate", login.Authority)
	}
	made := &tls.Config{RootCAs: trusted}
	if login.Mechanism == "mTLS" {
		shown, err := tls.LoadX509KeyPair(login.Chain, login.Key)
		if err != nil {
			return nil, err
		}
		made.Certificates = []tls.Certificate{shown}
	}
	return made, nil
}

// end of settings
